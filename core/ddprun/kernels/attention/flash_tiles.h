// FlashAttention-2 (Dao 2023), a tile of queries or of keys at a time, on the calling thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Forward keeps a tile of queries in the caches, and tiles of keys go by. In backward it is the
/// other way round.
constexpr std::int64_t kKeptTile = 128;
constexpr std::int64_t kPassingTile = 64;
/// A passing tile in forward of which the kept one sees a part: less is computed in vain.
constexpr std::int64_t kShortTile = 32;
static_assert(kKeptTile % kPassingTile == 0 && kPassingTile % kShortTile == 0);

// Matrices of a head below are (time, width), of S. Rows of bfloat16 lie an even number of values
// apart. T is what is multiplied: S, or float for rows of bfloat16, which are widened a tile at a
// time. The latter is the faster where no instruction multiplies pairs.

/// A head. If causal, query i sees the keys 0 to i; else all.
template <class S>
struct HeadInputs {
  Matrix<const S> q, k, v;
  bool causal;
  float scale;  ///< of the scores, positive
  /// (queries,): the first key that each query sees, as AttentionShape has it; null: key 0.
  const std::int32_t* first_keys;

  std::int64_t first_key(std::int64_t query) const {
    return first_keys == nullptr ? 0 : first_keys[query];
  }
};

/// Bytes of scratch memory that a tile takes, whatever the lengths. It lies at a multiple of 64.
template <class S, class T>
std::int64_t forward_tile_scratch(std::int64_t width);
template <class S, class T>
std::int64_t backward_tile_scratch(std::int64_t width);

/// Writes out and log_sum_exp of kKeptTile queries from `first` on, or of those that are left
/// (Dao 2023, algorithm 1).
template <class S, class T>
void forward_tile(const HeadInputs<S>& in, std::int64_t first, const Matrix<S>& out,
                  float* log_sum_exp, std::byte* scratch);

/// What backward reads and writes of a head beside its inputs.
template <class S>
struct HeadGradients {
  Matrix<const S> dout;
  const float* log_sum_exp;
  const float* delta;     ///< (queries,): dout times out, by rows
  Matrix<float> dq_sums;  ///< (queries, width); may be dq
  Matrix<S> dq, dk, dv;
  /// For each kPassingTile queries, how many tiles of keys have added to dq_sums, beginning with
  /// the first that one of them sees: 0 at the beginning.
  std::atomic<std::int64_t>* turns;
};

/// Writes dk and dv of kKeptTile keys from `first` on, or of those that are left, and adds to dq
/// (Dao 2023, algorithm 2). Tiles of keys may run on different threads if those with smaller
/// `first` began earlier: each waits for its turn to add, so the bits are the same however the
/// tiles are spread. The last tile of keys that queries see writes their dq.
template <class S, class T>
void backward_tile(const HeadInputs<S>& in, std::int64_t first, const HeadGradients<S>& gradients,
                   std::byte* scratch);

}  // namespace ddprun::kernels
