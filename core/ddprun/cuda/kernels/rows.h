// Kernels over rows on a GPU: what kernels/rows/ is to the CPU, with the same arithmetic in float32
// and the same arguments. Each enqueues work on a stream and returns at once. Arrays lie in the
// device's memory; rows are contiguous. T: float or bf16.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::cuda {

using kernels::bf16;

/// y = norm(x); inverse_rms (rows) is kept for backward (kernels/rows/rms_norm.h).
template <class T>
struct Norm {
  std::int64_t rows, width;
  float eps;
  const float *x, *weight;
  T* y;
  float* inverse_rms;
};
template <class T>
void rms_norm(cudaStream_t stream, const Norm<T>& norm);

/// What the gradient of a norm is computed from, and where it goes.
template <class T>
struct NormGradient {
  std::int64_t rows, width;
  const T* dy;
  const float *x, *weight, *inverse_rms;
  const float* dsum;  ///< is added to dx; may be dx; null: nothing is
  float* dx;
  float* partial;  ///< (parts, width): sums of the weight's gradient over some of the rows each
  std::int64_t parts;
  float* dweight;  ///< the sums are added to it; null: nobody wants them
};
template <class T>
void rms_norm_backward(cudaStream_t stream, const NormGradient<T>& gradient);

/// Turns neighbouring pairs of x in place (kernels/rows/rope.h). Row r begins at r * stride.
template <class T>
struct Turned {
  T* x;
  std::int64_t rows, width, stride;
  const float* rotations;  ///< (time, head_dim / 2) cosines and sines
  std::int64_t time, head_dim;
  bool inverse;
};
template <class T>
void rope(cudaStream_t stream, const Turned<T>& turned);

/// up_gate (rows, 2 * width) -> h (rows, width) (kernels/rows/swiglu.h).
template <class T>
void swiglu(cudaStream_t stream, std::int64_t rows, std::int64_t width, const T* up_gate, T* h);
/// up_gate becomes its gradient, and h what forward computed.
template <class T>
void swiglu_backward(cudaStream_t stream, std::int64_t rows, std::int64_t width, const T* dh,
                     T* up_gate, T* h);

/// sum = stream_values + branch.
template <class T>
void add(cudaStream_t stream, std::int64_t count, const float* stream_values, const T* branch,
         float* sum);

/// losses[row] += -log softmax(logits[row])[targets[row]]. If `with_gradient`, logits become their
/// gradient times `scale` (kernels/rows/cross_entropy.h).
template <class T>
struct RowLosses {
  std::int64_t rows, vocab;
  T* logits;
  const std::int64_t* targets;
  float scale;
  bool with_gradient;
  double* losses;
};
template <class T>
void cross_entropy(cudaStream_t stream, const RowLosses<T>& losses);

}  // namespace ddprun::cuda
