// FlashAttention-2 (Dao 2023) of whole tensors. Unlike other kernels, it uses torch's threads, and
// allocates scratch memory by torch's allocator.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// The sizes of a call. If causal, query i sees the keys 0 to i; else all.
struct AttentionShape {
  std::int64_t batch, heads, queries, keys;
  std::int64_t width;  ///< of a query, key or value: a multiple of kAttentionWidthUnit
  bool causal;
  float scale;  ///< of the scores, positive
  /// (batch, queries): the first key that each query sees, which does not fall from one query to
  /// the next, and which it sees; null: key 0.
  const std::int32_t* first_keys = nullptr;
};

constexpr std::int64_t kAttentionWidthUnit = 16;

/// A (batch, heads, time, width) tensor. Values of a row are contiguous. Rows of bfloat16 lie an
/// even number of values apart.
template <class T>
struct HeadsOf {
  T* data;
  std::int64_t batch_stride, head_stride, time_stride;
};

template <class T>
struct AttentionInputs {
  HeadsOf<const T> q, k, v;
};

/// out = softmax(scale * q k^T) v, and log_sum_exp (batch, heads, queries) of each query's scaled
/// scores. S is float or bf16, and T, in which it is multiplied, S or float; sums are float32.
/// Tiles of queries are spread over the threads, so that one head uses all of them. Memory beside
/// the arguments: some tiles a thread, whatever the lengths. The bits do not depend on the number
/// of threads.
template <class S, class T>
void flash_forward(const AttentionShape& shape, const AttentionInputs<S>& in, const HeadsOf<S>& out,
                   float* log_sum_exp);

template <class T>
struct AttentionGradients {
  HeadsOf<const T> out, dout;
  const float* log_sum_exp;
  HeadsOf<T> dq, dk, dv;
};

/// The gradients, from what forward computed. Scores are computed again. Tiles of keys are spread
/// over the threads. Memory beside the arguments: some tiles a thread, a float32 a query, and in
/// bf16 the float32 sums of dq for as many heads as there are threads, or a few MB.
template <class S, class T>
void flash_backward(const AttentionShape& shape, const AttentionInputs<S>& in,
                    const AttentionGradients<S>& gradients);

}  // namespace ddprun::kernels
