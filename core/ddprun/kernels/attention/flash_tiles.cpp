// Forward keeps a tile of queries and goes through the keys, backward the other way round.
#include "ddprun/kernels/attention/flash_tiles.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <type_traits>

#include "ddprun/kernels/attention/tile_operands.h"
#include "ddprun/kernels/attention/tile_product.h"
#include "ddprun/kernels/rows/softmax.h"

namespace ddprun::kernels {

namespace {

/// The largest score of no keys. Its exponential is 0 beside any score's.
constexpr float kBelowAllScores = -1e30F;

/// Hands out parts of a block of memory, aligned to cache lines. Without memory, it only counts.
class Arena {
 public:
  explicit Arena(std::byte* memory) : memory_(memory) {}

  template <class E>
  E* take(std::int64_t count) {
    std::byte* const part = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += round_up(count * static_cast<std::int64_t>(sizeof(E)), 64);
    return reinterpret_cast<E*>(part);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

/// Memory for rows of S that multiplied() widens.
template <class S, class T>
T* take_widened(Arena& arena, std::int64_t rows, std::int64_t width) {
  return std::is_same_v<S, T> ? nullptr : arena.take<T>(rows * width);
}
/// Memory for rows that are summed down the columns.
template <class T>
Element<T>* take_steps(Arena& arena, std::int64_t rows, std::int64_t width) {
  return arena.take<Element<T>>(steps_of<T>(rows) * width);
}

template <class S, class T>
struct ForwardScratch {
  using E = Element<T>;

  ForwardScratch(std::int64_t width, Arena arena)
      : q(arena.take<E>(steps_of<T>(width) * kKeptTile)),
        scores(arena.take<float>(kPassingTile * kKeptTile)),
        k(arena.take<T>(kPassingTile * width)),
        v(take_steps<T>(arena, kPassingTile, width)),
        sums(arena.take<float>(width * kKeptTile)),
        rows(arena.take<float>(kKeptTile * width)),
        widened(take_widened<S, T>(arena, kKeptTile, width)),
        running{arena.take<float>(kKeptTile), arena.take<float>(kKeptTile)},
        factor(arena.take<float>(kKeptTile)),
        log_sum_exp(arena.take<float>(kKeptTile)),
        bytes(arena.bytes()) {}

  E* q;           // (steps of width, queries)
  float* scores;  // (keys, queries)
  T* k;           // (keys, width)
  E* v;
  float* sums;  // (width, queries): of probabilities and values
  float* rows;  // (queries, width): the same, transposed
  T* widened;   // (queries, width)
  RunningSoftmax running;
  float *factor, *log_sum_exp;
  std::int64_t bytes;
};

template <class S, class T>
struct BackwardScratch {
  using E = Element<T>;

  BackwardScratch(std::int64_t width, Arena arena)
      : k(arena.take<E>(steps_of<T>(width) * kKeptTile)),
        v(arena.take<E>(steps_of<T>(width) * kKeptTile)),
        widened(take_widened<S, T>(arena, kKeptTile, width)),
        k_rows(take_steps<T>(arena, kKeptTile, width)),
        q_rows(arena.take<T>(kPassingTile * width)),
        dout_rows(arena.take<T>(kPassingTile * width)),
        dk(arena.take<float>(kKeptTile * width)),
        dv(arena.take<float>(kKeptTile * width)),
        scores(arena.take<float>(kPassingTile * kKeptTile)),
        dscores(arena.take<float>(kPassingTile * kKeptTile)),
        row_steps(take_steps<T>(arena, kPassingTile, width)),
        rounded(std::is_same_v<T, float> ? nullptr : arena.take<bf16>(kPassingTile * kKeptTile)),
        bytes(arena.bytes()) {}

  E *k, *v;                 // (steps of width, keys)
  T* widened;               // (keys, width)
  E* k_rows;                // keys, to be summed down the columns
  T *q_rows, *dout_rows;    // (queries, width)
  float *dk, *dv;           // (keys, width)
  float *scores, *dscores;  // (queries, keys)
  E* row_steps;
  bf16* rounded;  // (queries, keys): the scores' gradients
  std::int64_t bytes;
};

/// Waits until tile `tile` of keys may add to the queries of this turn.
void wait_for(const std::atomic<std::int64_t>& turn, std::int64_t tile) {
  constexpr int kAwake = 1 << 10;
  for (int i = 0; turn.load(std::memory_order_acquire) != tile; ++i) {
    if (i >= kAwake) std::this_thread::yield();
  }
}

/// Some queries or keys, and how far apart their scores lie.
struct Along {
  std::int64_t first, count, stride;
};

/// Minus infinity for the scores of keys that lie before what a query sees.
template <class S>
void hide_before(const HeadInputs<S>& in, const Along& queries, const Along& keys, float* scores) {
  if (in.first_key(queries.first + queries.count - 1) <= keys.first) return;
  for (std::int64_t query = 0; query < queries.count; ++query) {
    const std::int64_t hidden =
        std::clamp<std::int64_t>(in.first_key(queries.first + query) - keys.first, 0, keys.count);
    for (std::int64_t key = 0; key < hidden; ++key) {
      scores[query * queries.stride + key * keys.stride] = -std::numeric_limits<float>::infinity();
    }
  }
}

/// A tile of keys in backward, with what stays the same for all tiles of queries.
template <class S, class T>
class KeyTile {
  using E = Element<T>;

 public:
  KeyTile(const HeadInputs<S>& in, std::int64_t first, const HeadGradients<S>& gradients,
          const BackwardScratch<S, T>& memory)
      : in_(in),
        first_(first),
        keys_(std::min(kKeptTile, in.k.rows - first)),
        width_(in.k.columns),
        gradients_(gradients),
        memory_(memory),
        v_(row_a_lane(along_rows(of_keys(in.v)), memory.v)) {
    const Matrix<const T> k = of_keys(in.k);
    k_ = row_a_lane(along_rows(k), memory.k);
    k_rows_ = down_columns(k, memory.k_rows);
  }

  void run() {
    const std::int64_t begin = in_.causal ? first_ : 0;
    const std::int64_t end = end_of_queries();
    Ahead dv(of_keys_in(gradients_.dv));
    Ahead gradients(of_keys_in(gradients_.dk), &dv);
    for (std::int64_t query = begin; query < end; query += kPassingTile) {
      const std::int64_t next = query + kPassingTile;
      const Matrix<const T> q = dense(rows_of(in_.q, query), memory_.q_rows);
      const Matrix<const T> dout = dense(rows_of(gradients_.dout, query), memory_.dout_rows);
      Ahead dq(is_last_of(next - 1) ? rows_of(gradients_.dq, query) : Matrix<S>{}, &gradients);
      Ahead sums(rows_of(gradients_.dq_sums, query), &dq);
      Ahead next_q(next < end ? rows_of(in_.q, next) : Matrix<const S>{}, &gradients);
      Ahead next_dout(next < end ? rows_of(gradients_.dout, next) : Matrix<const S>{}, &gradients);
      const std::int64_t seen = seen_before(query + q.rows);
      if (query == begin) clear_from(seen);
      compute_scores(query, seen, q, dout, sums);
      add_product(over(memory_.scores), query, dout, query > begin,
                  {memory_.dv, seen, width_, width_}, next_q);
      add_product(over(memory_.dscores), query, q, query > begin,
                  {memory_.dk, seen, width_, width_}, next_dout);
      add_to_queries(query, dscore_rows(q.rows, seen), gradients);
    }
    if (begin >= end) clear_from(0);
    write_rows(of_width(memory_.dk), gradients_.dk.from(first_));
    write_rows(of_width(memory_.dv), gradients_.dv.from(first_));
  }

 private:
  template <class R>
  Matrix<R> rows_of(const Matrix<R>& all, std::int64_t query) const {
    return all.block(query, 0, kPassingTile, width_);
  }

  /// The queries from here on see later keys alone.
  std::int64_t end_of_queries() const {
    if (in_.first_keys == nullptr) return in_.q.rows;
    const std::int32_t* const end = in_.first_keys + in_.q.rows;
    return std::lower_bound(in_.first_keys, end, first_ + keys_) - in_.first_keys;
  }

  /// The rows of this tile's keys. What is widened stays until the next call.
  Matrix<const T> of_keys(const Matrix<const S>& all) const {
    return multiplied(of_keys_in(all), memory_.widened);
  }
  template <class R>
  Matrix<R> of_keys_in(const Matrix<R>& all) const {
    return all.block(first_, 0, keys_, width_);
  }
  Matrix<const float> of_width(const float* sums) const { return {sums, keys_, width_, width_}; }

  /// How many keys of this tile the queries before `end` see. The scores of later ones are left
  /// out.
  std::int64_t seen_before(std::int64_t end) const {
    return in_.causal ? std::min(keys_, end - first_) : keys_;
  }
  /// The scores of so many keys: (rows, whole vectors of lanes).
  static Matrix<float> tile_of(float* scores, std::int64_t rows, std::int64_t keys) {
    const std::int64_t lanes = whole_lanes(keys);
    return {scores, rows, lanes, lanes};
  }

  /// What takes the place of float32 scores.
  static E* over(float* scores) { return reinterpret_cast<E*>(scores); }

  /// Probabilities and the scores' gradients.
  void compute_scores(std::int64_t query, std::int64_t keys, const Matrix<const T>& q,
                      const Matrix<const T>& dout, Ahead& ahead) {
    const Matrix<float> scores = tile_of(memory_.scores, q.rows, keys);
    const Matrix<float> dscores = tile_of(memory_.dscores, q.rows, keys);
    const std::int64_t lanes = scores.columns;
    multiply_seen(query, along_rows(q), k_, scores, ahead);
    multiply_seen(query, along_rows(dout), v_, dscores, ahead);
    hide_before(in_, {query, q.rows, lanes}, {first_, keys, 1}, memory_.scores);
    const std::int64_t seen = in_.causal ? query - first_ + 1 : keys;
    const ScoreGradients<E> gradients = {over(memory_.scores), over(memory_.dscores),
                                         memory_.rounded};
    softmax_backward({q.rows, lanes, keys, seen, in_.scale}, gradients_.log_sum_exp + query,
                     gradients_.delta + query, memory_.scores, memory_.dscores, gradients);
  }

  /// Whether queries from this one on see all keys of the tile.
  bool sees_all(std::int64_t query) const { return !in_.causal || query >= first_ + keys_ - 1; }
  /// How many rows of queries are multiplied at a time: few where they do not see the same keys.
  std::int64_t rows_at_a_time(std::int64_t query) const {
    return sees_all(query) ? kPassingTile : product_rows();
  }

  /// c (queries, keys) = rows (queries, width) times keys, whatever for most that are not seen.
  void multiply_seen(std::int64_t query, const Matrix<const E>& rows, const Matrix<const E>& keys,
                     const Matrix<float>& c, Ahead& ahead) {
    const std::int64_t count = rows_at_a_time(query);
    for (std::int64_t row = 0; row < c.rows; row += count) {
      const Matrix<const E> left = rows.block(row, 0, count, rows.columns);
      const std::int64_t lanes = whole_lanes(seen_before(query + row + left.rows));
      tile_product(left, keys.block(0, 0, keys.rows, lanes), false, c.block(row, 0, count, lanes),
                   ahead);
    }
  }

  /// out (keys, width) += scores (rows, keys), transposed, times values (rows, width). Queries
  /// before a key do not see it, and are left out.
  void add_product(const E* scores, std::int64_t query, const Matrix<const T>& values, bool add,
                   const Matrix<float>& out, Ahead& ahead) {
    const Matrix<const E> right = down_columns(values, memory_.row_steps);
    const Matrix<const E> left =
        Matrix<const E>{scores, right.rows, out.rows, whole_lanes(out.rows)}.transposed();
    const std::int64_t seen_by_all = sees_all(query) ? out.rows : query - first_;
    for (std::int64_t row = 0, count = seen_by_all; row < out.rows; row += count) {
      if (row == seen_by_all) count = product_rows();
      const std::int64_t step = std::max<std::int64_t>(0, row - seen_by_all) / kTermsAStep<T>;
      tile_product(left.block(row, step, count, left.columns), right.from(step), add,
                   out.block(row, 0, count, width_), ahead);
    }
  }
  Matrix<const T> dscore_rows(std::int64_t rows, std::int64_t keys) const {
    if constexpr (std::is_same_v<T, float>) {
      return {memory_.dscores, rows, keys, whole_lanes(keys)};
    } else {
      return {memory_.rounded, rows, keys, whole_lanes(keys)};
    }
  }
  /// dq += the scores' gradients (queries, keys) times keys, when its turn has come.
  void add_to_queries(std::int64_t query, const Matrix<const T>& dscores, Ahead& ahead) {
    const Matrix<float> sums = gradients_.dq_sums.block(query, 0, dscores.rows, width_);
    std::atomic<std::int64_t>& turn = gradients_.turns[query / kPassingTile];
    const std::int64_t tile = (first_ - in_.first_key(query) / kKeptTile * kKeptTile) / kKeptTile;
    wait_for(turn, tile);
    const std::int64_t count = rows_at_a_time(query);
    for (std::int64_t row = 0; row < sums.rows; row += count) {
      const std::int64_t keys = seen_before(std::min(query + row + count, query + sums.rows));
      const Matrix<const E> left = along_rows(dscores.block(row, 0, count, keys));
      tile_product(left, k_rows_.block(0, 0, left.columns, width_), tile > 0,
                   sums.block(row, 0, count, width_), ahead);
    }
    if (is_last_of(query + sums.rows - 1)) {
      write_rows(Matrix<const float>(sums), gradients_.dq.from(query));
    }
    turn.store(tile + 1, std::memory_order_release);
  }

  /// Whether a query sees keys of this tile and of none after it.
  bool is_last_of(std::int64_t query) const {
    const std::int64_t last = in_.causal ? std::min(query, in_.k.rows - 1) : in_.k.rows - 1;
    return last < first_ + kKeptTile;
  }

  /// Zero for the gradients of the keys that lie there or behind.
  void clear_from(std::int64_t key) {
    for (float* const sums : {memory_.dk, memory_.dv}) {
      std::fill(sums + key * width_, sums + keys_ * width_, 0.0F);
    }
  }

  const HeadInputs<S>& in_;
  std::int64_t first_, keys_, width_;
  const HeadGradients<S>& gradients_;
  const BackwardScratch<S, T>& memory_;
  Matrix<const E> v_, k_, k_rows_;
};

}  // namespace

template <class S, class T>
std::int64_t forward_tile_scratch(std::int64_t width) {
  return ForwardScratch<S, T>(width, Arena(nullptr)).bytes;
}
template <class S, class T>
std::int64_t backward_tile_scratch(std::int64_t width) {
  return BackwardScratch<S, T>(width, Arena(nullptr)).bytes;
}

template <class S, class T>
void forward_tile(const HeadInputs<S>& in, std::int64_t first, const Matrix<S>& out,
                  float* log_sum_exp, std::byte* scratch) {
  const std::int64_t width = in.q.columns;
  const ForwardScratch<S, T> memory(width, Arena(scratch));
  const Matrix<const S> q_rows = in.q.block(first, 0, kKeptTile, width);
  const std::int64_t all_lanes = whole_lanes(q_rows.rows);
  const std::int64_t end = in.causal ? std::min(first + q_rows.rows, in.k.rows) : in.k.rows;
  const auto q = row_a_lane(along_rows(multiplied(q_rows, memory.widened)), memory.q);
  const Matrix<float> sums = {memory.sums, width, all_lanes, all_lanes};
  Ahead out_rows(out.block(first, 0, q_rows.rows, width));
  auto* const probabilities = reinterpret_cast<Element<T>*>(memory.scores);
  // Finite, since a query may see none of the first keys.
  std::fill_n(memory.running.largest, all_lanes, kBelowAllScores);
  std::fill_n(memory.running.sum, all_lanes, 0.0F);
  const std::int64_t begin = in.first_key(first) / kPassingTile * kPassingTile;
  for (std::int64_t key = begin, keys = 0; key < end; key += keys) {
    keys = std::min(in.causal && key >= first ? kShortTile : kPassingTile, end - key);
    // Queries before the keys see none of them; whole vectors of such lanes are left out.
    const std::int64_t lane =
        in.causal ? std::max<std::int64_t>(0, key - first) / kLaneUnit * kLaneUnit : 0;
    const std::int64_t lanes = all_lanes - lane;
    const Matrix<float> scores = {memory.scores, keys, lanes, lanes};
    const Matrix<const S> v = in.v.block(key, 0, keys, width);
    Ahead values(v, &out_rows);
    Ahead next_keys(in.k.block(std::min(key + keys, end), 0, keys, width), &out_rows);
    tile_product(along_rows(dense(in.k.block(key, 0, keys, width), memory.k)), q.from(0, lane),
                 false, scores, values);
    hide_before(in, {first + lane, q_rows.rows - lane, 1}, {key, keys, lanes}, memory.scores);
    const std::int64_t seen = in.causal ? first + lane - key + 1 : keys;
    const RunningSoftmax running = {memory.running.largest + lane, memory.running.sum + lane};
    std::fill_n(memory.factor, lane, 1.0F);
    const bool grown = online_softmax({keys, lanes, seen, in.scale}, memory.scores, running,
                                      memory.factor + lane, probabilities);
    if (grown && key > begin) scale_lanes(width, all_lanes, memory.factor, memory.sums);
    tile_product(down_columns(v, memory.v).transposed(),
                 Matrix<const Element<T>>{probabilities, steps_of<T>(keys), lanes, lanes},
                 key > begin, sums.from(0, lane), next_keys);
  }
  finish_softmax(width, all_lanes, in.scale, memory.running, memory.sums, memory.log_sum_exp);
  const Matrix<float> rows = {memory.rows, q_rows.rows, width, width};
  transpose(Matrix<const float>(sums.block(0, 0, width, rows.rows)), rows);
  write_rows(Matrix<const float>(rows), out.from(first));
  std::copy_n(memory.log_sum_exp, rows.rows, log_sum_exp + first);
}

template <class S, class T>
void backward_tile(const HeadInputs<S>& in, std::int64_t first, const HeadGradients<S>& gradients,
                   std::byte* scratch) {
  const BackwardScratch<S, T> memory(in.k.columns, Arena(scratch));
  KeyTile<S, T>(in, first, gradients, memory).run();
}

#define DDPRUN_FLASH_TILES(S, T)                                                                 \
  template std::int64_t forward_tile_scratch<S, T>(std::int64_t);                                \
  template std::int64_t backward_tile_scratch<S, T>(std::int64_t);                               \
  template void forward_tile<S, T>(const HeadInputs<S>&, std::int64_t, const Matrix<S>&, float*, \
                                   std::byte*);                                                  \
  template void backward_tile<S, T>(const HeadInputs<S>&, std::int64_t, const HeadGradients<S>&, \
                                    std::byte*)

DDPRUN_FLASH_TILES(float, float);
DDPRUN_FLASH_TILES(bf16, float);
DDPRUN_FLASH_TILES(bf16, bf16);

}  // namespace ddprun::kernels
