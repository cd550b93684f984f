// Forward keeps a tile of queries and goes through the keys, backward the other way round.
#include "ddprun/kernels/attention/flash_tiles.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <type_traits>

#include "ddprun/kernels/attention/tile_layout.h"
#include "ddprun/kernels/attention/tile_product.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/kernels/rows/softmax.h"

namespace ddprun::kernels {

namespace {

/// What the products of T sum over step by step.
template <class T>
using Element = std::conditional_t<std::is_same_v<T, float>, float, Pair>;

/// Steps of a sum over `terms` terms.
template <class T>
constexpr std::int64_t steps_of(std::int64_t terms) {
  constexpr auto in_a_step = static_cast<std::int64_t>(sizeof(Element<T>) / sizeof(T));
  return (terms + in_a_step - 1) / in_a_step;
}

/// Hands out parts of a block of memory, aligned to cache lines. Without memory, it only counts.
class Arena {
 public:
  explicit Arena(std::byte* memory) : memory_(memory) {}

  template <class E>
  E* take(std::int64_t count) {
    constexpr std::int64_t kLine = 64;
    std::byte* const part = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (count * static_cast<std::int64_t>(sizeof(E)) + kLine - 1) / kLine * kLine;
    return reinterpret_cast<E*>(part);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

/// Rows in the type that is multiplied: where they lie, or widened to `memory`.
template <class T>
Matrix<const T> multiplied(std::int64_t /*rows*/, std::int64_t /*width*/, Matrix<const T> in,
                           T* /*memory*/) {
  return in;
}
Matrix<const float> multiplied(std::int64_t rows, std::int64_t width, Matrix<const bf16> in,
                               float* memory) {
  for (std::int64_t row = 0; row < rows; ++row) {
    to_float(width, in.from(row).data, memory + row * width);
  }
  return {memory, width};
}

/// The same one after another. Those of a tensor of several heads lie some KB apart, where many of
/// them share a set of the cache; they are copied to `memory`.
template <class T>
Matrix<const T> dense(std::int64_t rows, std::int64_t width, Matrix<const T> in, T* memory) {
  if (in.stride == width) return in;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(memory + row * width, in.from(row).data,
                static_cast<std::size_t>(width) * sizeof(T));
  }
  return {memory, width};
}
Matrix<const float> dense(std::int64_t rows, std::int64_t width, Matrix<const bf16> in,
                          float* memory) {
  return multiplied(rows, width, in, memory);
}

/// Rows as a left operand that sums along them, where they lie.
Left<float> along_rows(Matrix<const float> rows) { return {rows.data, rows.stride, 1}; }
Left<Pair> along_rows(Matrix<const bf16> rows) {
  return {reinterpret_cast<const Pair*>(rows.data), rows.stride / 2, 1};
}

/// The same of float32 rows that are `width` apart, in the dtype of the products. `memory` is for a
/// copy, if that takes one.
Left<float> along_rounded_rows(std::int64_t /*rows*/, std::int64_t width, const float* values,
                               bf16* /*memory*/, float /*of*/) {
  return {values, width, 1};
}
Left<Pair> along_rounded_rows(std::int64_t rows, std::int64_t width, const float* values,
                              bf16* memory, bf16 /*of*/) {
  to_bf16(rows * width, values, memory);
  return along_rows(Matrix<const bf16>{memory, width});
}

/// Rows as an operand that sums down the columns.
template <class S>
Matrix<const float> down_columns(std::int64_t rows, std::int64_t width, Matrix<const S> in,
                                 float* memory) {
  return dense(rows, width, in, memory);
}
template <class T>
Matrix<const Pair> down_columns(std::int64_t rows, std::int64_t width, Matrix<const T> in,
                                Pair* memory) {
  pair_rows(rows, width, in, memory);
  return {memory, width};
}
template <class E>
Left<E> as_left(Matrix<const E> summed_down) {
  return {summed_down.data, 1, summed_down.stride};
}
template <class E>
Right<E> as_right(Matrix<const E> summed_down) {
  return {summed_down.data, summed_down.stride};
}

/// Rows as a right operand that sums along them: a row a lane.
template <class E>
Right<E> row_a_lane(std::int64_t rows, std::int64_t steps, const Left<E>& along, std::int64_t lanes,
                    E* memory) {
  transpose(rows, steps, Matrix<const E>{along.data, along.row_stride}, lanes, memory);
  return {memory, lanes};
}

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
/// The same for scores. Float32 ones are used where they lie.
template <class T>
Element<T>* take_scores(Arena& arena, std::int64_t rows, std::int64_t lanes) {
  return std::is_same_v<T, float> ? nullptr : take_steps<T>(arena, rows, lanes);
}

void write_rows(std::int64_t rows, std::int64_t width, Matrix<const float> from, Matrix<float> to) {
  if (from.data == to.data) return;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(to.from(row).data, from.from(row).data,
                static_cast<std::size_t>(width) * sizeof(float));
  }
}
void write_rows(std::int64_t rows, std::int64_t width, Matrix<const float> from, Matrix<bf16> to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    to_bf16(width, from.from(row).data, to.from(row).data);
  }
}

template <class S, class T>
struct ForwardScratch {
  using E = Element<T>;

  ForwardScratch(std::int64_t width, Arena arena)
      : q(arena.take<E>(steps_of<T>(width) * kKeptTile)),
        scores(arena.take<float>(kPassingTile * kKeptTile)),
        probabilities(take_scores<T>(arena, kPassingTile, kKeptTile)),
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
  E* probabilities;
  T* k;  // (keys, width)
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
        score_steps(take_scores<T>(arena, kPassingTile, kKeptTile)),
        row_steps(take_steps<T>(arena, kPassingTile, width)),
        rounded(std::is_same_v<T, float> ? nullptr : arena.take<bf16>(kPassingTile * kKeptTile)),
        bytes(arena.bytes()) {}

  E *k, *v;                 // (steps of width, keys)
  T* widened;               // (keys, width)
  E* k_rows;                // keys, to be summed down the columns
  T *q_rows, *dout_rows;    // (queries, width)
  float *dk, *dv;           // (keys, width)
  float *scores, *dscores;  // (queries, keys)
  E *score_steps, *row_steps;
  bf16* rounded;
  std::int64_t bytes;
};

/// Waits until tile `tile` of keys may add to the queries of this turn.
void wait_for(const std::atomic<std::int64_t>& turn, std::int64_t tile) {
  constexpr int kAwake = 1 << 10;
  for (int i = 0; turn.load(std::memory_order_acquire) != tile; ++i) {
    if (i >= kAwake) std::this_thread::yield();
  }
}

/// A tile of keys in backward, with what stays the same for all tiles of queries.
template <class S, class T>
class KeyTile {
  using E = Element<T>;

 public:
  KeyTile(const HeadShape& shape, const HeadInputs<S>& in, std::int64_t first,
          const HeadGradients<S>& gradients, const BackwardScratch<S, T>& memory)
      : shape_(shape),
        in_(in),
        first_(first),
        keys_(std::min(kKeptTile, shape.keys - first)),
        gradients_(gradients),
        memory_(memory),
        v_(row_a_lane(keys_, steps(shape.width), along_rows(of_keys(in.v)), kKeptTile, memory.v)) {
    const Matrix<const T> k = of_keys(in.k);
    k_ = row_a_lane(keys_, steps(shape.width), along_rows(k), kKeptTile, memory.k);
    k_rows_ = as_right(down_columns(keys_, shape.width, k, memory.k_rows));
  }

  void run() {
    const std::int64_t begin = shape_.causal ? first_ / kPassingTile * kPassingTile : 0;
    for (std::int64_t query = begin; query < shape_.queries; query += kPassingTile) {
      const std::int64_t rows = std::min(kPassingTile, shape_.queries - query);
      const Matrix<const T> q = dense(rows, shape_.width, in_.q.from(query), memory_.q_rows);
      const Matrix<const T> dout =
          dense(rows, shape_.width, gradients_.dout.from(query), memory_.dout_rows);
      compute_scores(query, rows, q, dout);
      add_product(rows, memory_.scores, dout, /*add=*/query > begin, memory_.dv);
      add_product(rows, memory_.dscores, q, /*add=*/query > begin, memory_.dk);
      add_to_queries(query, rows);
    }
    if (begin >= shape_.queries) clear();
    write_rows(keys_, shape_.width, {memory_.dk, shape_.width}, gradients_.dk.from(first_));
    write_rows(keys_, shape_.width, {memory_.dv, shape_.width}, gradients_.dv.from(first_));
  }

 private:
  static std::int64_t steps(std::int64_t terms) { return steps_of<T>(terms); }

  /// The rows of this tile's keys. What is widened stays until the next call.
  Matrix<const T> of_keys(Matrix<const S> all) const {
    return multiplied(keys_, shape_.width, all.from(first_), memory_.widened);
  }

  /// Probabilities and the scores' gradients.
  void compute_scores(std::int64_t query, std::int64_t rows, Matrix<const T> q,
                      Matrix<const T> dout) {
    tile_product(rows, kKeptTile, steps(shape_.width), along_rows(q), k_, false,
                 {memory_.scores, kKeptTile});
    tile_product(rows, kKeptTile, steps(shape_.width), along_rows(dout), v_, false,
                 {memory_.dscores, kKeptTile});
    const std::int64_t seen = shape_.causal ? query - first_ + 1 : keys_;
    softmax_backward({rows, kKeptTile, keys_, seen, shape_.scale}, gradients_.log_sum_exp + query,
                     gradients_.delta + query, memory_.scores, memory_.dscores);
  }

  /// out (keys, width) += scores (rows, keys), transposed, times values (rows, width).
  void add_product(std::int64_t rows, const float* scores, Matrix<const T> values, bool add,
                   float* out) {
    const Matrix<const float> tile = {scores, kKeptTile};
    tile_product(keys_, shape_.width, steps(rows),
                 as_left(down_columns(rows, kKeptTile, tile, memory_.score_steps)),
                 as_right(down_columns(rows, shape_.width, values, memory_.row_steps)), add,
                 {out, shape_.width});
  }

  void add_to_queries(std::int64_t query, std::int64_t rows) {
    const Left<E> dscores =
        along_rounded_rows(rows, kKeptTile, memory_.dscores, memory_.rounded, T{});
    const Matrix<float> sums = gradients_.dq_sums.from(query);
    std::atomic<std::int64_t>& turn = gradients_.turns[query / kPassingTile];
    const std::int64_t tile = first_ / kKeptTile;
    wait_for(turn, tile);
    tile_product(rows, shape_.width, steps(keys_), dscores, k_rows_, first_ > 0, sums);
    if (is_last_of(query + rows - 1)) {
      write_rows(rows, shape_.width, {sums.data, sums.stride}, gradients_.dq.from(query));
    }
    turn.store(tile + 1, std::memory_order_release);
  }

  /// Whether a query sees keys of this tile and of none after it.
  bool is_last_of(std::int64_t query) const {
    const std::int64_t last = shape_.causal ? std::min(query, shape_.keys - 1) : shape_.keys - 1;
    return last < first_ + kKeptTile;
  }

  void clear() {
    std::fill_n(memory_.dk, keys_ * shape_.width, 0.0F);
    std::fill_n(memory_.dv, keys_ * shape_.width, 0.0F);
  }

  const HeadShape& shape_;
  const HeadInputs<S>& in_;
  std::int64_t first_, keys_;
  const HeadGradients<S>& gradients_;
  const BackwardScratch<S, T>& memory_;
  Right<E> v_, k_, k_rows_;
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
void forward_tile(const HeadShape& shape, const HeadInputs<S>& in, std::int64_t first,
                  Matrix<S> out, float* log_sum_exp, std::byte* scratch) {
  const ForwardScratch<S, T> memory(shape.width, Arena(scratch));
  const std::int64_t queries = std::min(kKeptTile, shape.queries - first);
  const std::int64_t end = shape.causal ? std::min(first + queries, shape.keys) : shape.keys;
  const std::int64_t steps = steps_of<T>(shape.width);
  const Matrix<const T> q_rows = multiplied(queries, shape.width, in.q.from(first), memory.widened);
  const Right<Element<T>> q = row_a_lane(queries, steps, along_rows(q_rows), kKeptTile, memory.q);
  std::fill_n(memory.running.largest, kKeptTile, -std::numeric_limits<float>::infinity());
  std::fill_n(memory.running.sum, kKeptTile, 0.0F);
  for (std::int64_t key = 0; key < end; key += kPassingTile) {
    const std::int64_t keys = std::min(kPassingTile, end - key);
    tile_product(keys, kKeptTile, steps,
                 along_rows(dense(keys, shape.width, in.k.from(key), memory.k)), q, false,
                 {memory.scores, kKeptTile});
    const std::int64_t seen = shape.causal ? first - key + 1 : keys;
    const bool grown = online_softmax({keys, kKeptTile, seen, shape.scale}, memory.scores,
                                      memory.running, memory.factor);
    if (grown && key > 0) scale_lanes(shape.width, kKeptTile, memory.factor, memory.sums);
    const Matrix<const float> probabilities = {memory.scores, kKeptTile};
    tile_product(shape.width, kKeptTile, steps_of<T>(keys),
                 as_left(down_columns(keys, shape.width, in.v.from(key), memory.v)),
                 as_right(down_columns(keys, kKeptTile, probabilities, memory.probabilities)),
                 key > 0, {memory.sums, kKeptTile});
  }
  finish_softmax(shape.width, kKeptTile, shape.scale, memory.running, memory.sums,
                 memory.log_sum_exp);
  transpose(shape.width, queries, Matrix<const float>{memory.sums, kKeptTile}, shape.width,
            memory.rows);
  write_rows(queries, shape.width, {memory.rows, shape.width}, out.from(first));
  std::copy_n(memory.log_sum_exp, queries, log_sum_exp + first);
}

template <class S, class T>
void backward_tile(const HeadShape& shape, const HeadInputs<S>& in, std::int64_t first,
                   const HeadGradients<S>& gradients, std::byte* scratch) {
  const BackwardScratch<S, T> memory(shape.width, Arena(scratch));
  KeyTile<S, T>(shape, in, first, gradients, memory).run();
}

#define DDPRUN_FLASH_TILES(S, T)                                                          \
  template std::int64_t forward_tile_scratch<S, T>(std::int64_t);                         \
  template std::int64_t backward_tile_scratch<S, T>(std::int64_t);                        \
  template void forward_tile<S, T>(const HeadShape&, const HeadInputs<S>&, std::int64_t,  \
                                   Matrix<S>, float*, std::byte*);                        \
  template void backward_tile<S, T>(const HeadShape&, const HeadInputs<S>&, std::int64_t, \
                                    const HeadGradients<S>&, std::byte*)

DDPRUN_FLASH_TILES(float, float);
DDPRUN_FLASH_TILES(bf16, float);
DDPRUN_FLASH_TILES(bf16, bf16);

}  // namespace ddprun::kernels
