// Kernels over rows. All are bound by memory: each reads and writes 16 bytes at a time where width
// and addresses allow, and what a second pass reads again is in the caches.
#include "ddprun/cuda/kernels/packs.cuh"
#include "ddprun/cuda/kernels/rows.h"

namespace ddprun::cuda {

namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

/// The same in each lane.
__device__ float warp_sum(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

__device__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }

// RMSNorm: a warp a row ---------------------------------------------------------------------------

constexpr int kRowsAtATime = 8;  // warps of a block

template <int N, class T>
__global__ void rms_norm_kernel(Norm<T> n) {
  const Size row = Size{blockIdx.x} * kRowsAtATime + warp();
  if (row >= n.rows) return;
  const float* const x = n.x + row * n.width;
  float squares = 0;
  for (Size i = lane() * N; i < n.width; i += kWarp * N) {
    float values[N];
    load(x + i, values);
    for (const float value : values) squares += value * value;
  }
  const float r = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(n.width) + n.eps);
  if (lane() == 0) n.inverse_rms[row] = r;
  for (Size i = lane() * N; i < n.width; i += kWarp * N) {
    float values[N], weights[N];
    load(x + i, values);
    load(n.weight + i, weights);
    for (int k = 0; k < N; ++k) values[k] = values[k] * r * weights[k];
    store(values, n.y + row * n.width + i);
  }
}

/// The mean over a row of dy weight x, of one warp's row.
template <int N, class T>
__device__ float mean_pull(const NormGradient<T>& g, Size row) {
  float products = 0;
  for (Size i = lane() * N; i < g.width; i += kWarp * N) {
    float dy[N], x[N], weights[N];
    load(g.dy + row * g.width + i, dy);
    load(g.x + row * g.width + i, x);
    load(g.weight + i, weights);
    for (int k = 0; k < N; ++k) products += dy[k] * weights[k] * x[k];
  }
  return warp_sum(products) / static_cast<float>(g.width);
}

/// N columns of one row: writes dx, adds to dweight.
template <int N, class T>
__device__ void norm_gradient(const NormGradient<T>& g, Size place, const float (&weights)[N],
                              float r, float pull, float (&dweight)[N]) {
  float dy[N], x[N], dx[N];
  load(g.dy + place, dy);
  load(g.x + place, x);
  for (int k = 0; k < N; ++k) {
    dx[k] = dy[k] * weights[k] * r - pull * x[k];
    dweight[k] += dy[k] * x[k] * r;
  }
  if (g.dsum != nullptr) {
    float dsum[N];
    load(g.dsum + place, dsum);
    for (int k = 0; k < N; ++k) dx[k] += dsum[k];
  }
  store(dx, g.dx + place);
}

/// With r = inverse_rms: dx = r (dy weight - x r^2 mean(dy weight x)), dweight = dy x r. A block
/// takes as many rows at a time as it has warps: a mean a warp, then all columns of these rows. It
/// sums its part of dweight in `partial`, which stays in the caches.
template <int N, class T>
__global__ void rms_norm_backward_kernel(NormGradient<T> g) {
  __shared__ float pulls[kRowsAtATime];
  float* const partial = g.partial + blockIdx.x * g.width;
  for (Size i = threadIdx.x; i < g.width; i += blockDim.x) partial[i] = 0;
  for (Size first = Size{blockIdx.x} * kRowsAtATime; first < g.rows;
       first += g.parts * kRowsAtATime) {
    __syncthreads();  // partial, and pulls of the rows before
    const Size own = first + warp();
    if (own < g.rows) {
      const float r = g.inverse_rms[own];
      const float pull = r * r * r * mean_pull<N>(g, own);
      if (lane() == 0) pulls[warp()] = pull;
    }
    __syncthreads();
    const int count =
        static_cast<int>(g.rows - first < kRowsAtATime ? g.rows - first : Size{kRowsAtATime});
    for (Size i = Size{threadIdx.x} * N; i < g.width; i += Size{blockDim.x} * N) {
      float weights[N], dweight[N];
      load(g.weight + i, weights);
      load(partial + i, dweight);
      for (int k = 0; k < count; ++k) {
        const Size row = first + k;
        norm_gradient(g, row * g.width + i, weights, g.inverse_rms[row], pulls[k], dweight);
      }
      store(dweight, partial + i);
    }
  }
}

constexpr int kSlices = 32;  // of the parts, summed side by side

/// A block adds 32 columns, always in the same order.
__global__ void add_parts_kernel(Size parts, Size width, const float* partial, float* sum) {
  __shared__ float slices[kSlices][kWarp];
  const Size column = Size{blockIdx.x} * kWarp + lane();
  float value = 0;
  if (column < width) {
    for (Size part = warp(); part < parts; part += kSlices) value += partial[part * width + column];
  }
  slices[warp()][lane()] = value;
  __syncthreads();
  if (warp() > 0 || column >= width) return;
  for (int slice = 1; slice < kSlices; ++slice) value += slices[slice][lane()];
  sum[column] += value;
}

// RoPE, SwiGLU, addition: a block a row, or all threads side by side ------------------------------

constexpr int kThreads = 128;

template <int N, class T>
__global__ void rope_kernel(Turned<T> t) {
  T* const row = t.x + Size{blockIdx.x} * t.stride;
  const float* const turn = t.rotations + Size{blockIdx.x} % t.time * t.head_dim;
  const float sign = t.inverse ? -1.0F : 1.0F;
  for (Size i = Size{threadIdx.x} * N; i < t.width; i += Size{blockDim.x} * N) {
    float x[N], by[N];
    load(row + i, x);
    load(turn + i % t.head_dim, by);
    for (int k = 0; k < N; k += 2) {
      const float a = x[k], b = x[k + 1], cosine = by[k], sine = sign * by[k + 1];
      x[k] = a * cosine - b * sine;
      x[k + 1] = b * cosine + a * sine;
    }
    store(x, row + i);
  }
}

__device__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

template <int N, class T>
__global__ void swiglu_kernel(Size width, const T* up_gate, T* h) {
  const T* const ups = up_gate + Size{blockIdx.x} * 2 * width;
  for (Size i = Size{threadIdx.x} * N; i < width; i += Size{blockDim.x} * N) {
    float up[N], gate[N];
    load(ups + i, up);
    load(ups + width + i, gate);
    for (int k = 0; k < N; ++k) up[k] *= gate[k] * sigmoid(gate[k]);
    store(up, h + blockIdx.x * width + i);
  }
}

/// With s = sigmoid(gate): silu = gate s, silu' = s + silu (1 - s).
template <int N, class T>
__global__ void swiglu_backward_kernel(Size width, const T* dh, T* up_gate, T* h) {
  T* const ups = up_gate + Size{blockIdx.x} * 2 * width;
  const Size first = Size{blockIdx.x} * width;
  for (Size i = Size{threadIdx.x} * N; i < width; i += Size{blockDim.x} * N) {
    float up[N], gate[N], d[N], out[N];
    load(ups + i, up);
    load(ups + width + i, gate);
    load(dh + first + i, d);
    for (int k = 0; k < N; ++k) {
      const float s = sigmoid(gate[k]);
      const float silu = gate[k] * s;
      out[k] = silu * up[k];
      gate[k] = d[k] * up[k] * (s + silu * (1.0F - s));
      up[k] = d[k] * silu;
    }
    store(up, ups + i);
    store(gate, ups + width + i);
    store(out, h + first + i);
  }
}

template <int N, class T>
__global__ void add_kernel(Size count, const float* stream_values, const T* branch, float* sum) {
  const Size i = (Size{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (i >= count) return;
  float a[N], b[N];
  load(stream_values + i, a);
  load(branch + i, b);
  for (int k = 0; k < N; ++k) a[k] += b[k];
  store(a, sum + i);
}

// Cross-entropy: a block a row --------------------------------------------------------------------

constexpr int kLossThreads = 512;
constexpr float kLowest = -3.402823466e38F;  // the difference of two infinities would be a NaN

/// The largest of some values, and the sum of e^(value - most) over them.
struct Exponentials {
  float most = kLowest;
  float sum = 0;
};

__device__ Exponentials joined(const Exponentials& a, const Exponentials& b) {
  const float most = fmaxf(a.most, b.most);
  return {most, a.sum * expf(a.most - most) + b.sum * expf(b.most - most)};
}

template <int N, class T>
__device__ Exponentials exponentials_of_thread(const T* row, Size vocab) {
  Exponentials own;
  for (Size i = Size{threadIdx.x} * N; i < vocab; i += Size{blockDim.x} * N) {
    float values[N];
    load(row + i, values);
    Exponentials here;
    for (const float value : values) here.most = fmaxf(here.most, value);
    for (const float value : values) here.sum += expf(value - here.most);
    own = joined(own, here);
  }
  return own;
}

/// Of all threads of the block, the same in each. All must call it.
__device__ Exponentials exponentials_of_block(Exponentials own) {
  __shared__ float mosts[kLossThreads / kWarp], sums[kLossThreads / kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    own = joined(own, {__shfl_xor_sync(kAllLanes, own.most, distance),
                       __shfl_xor_sync(kAllLanes, own.sum, distance)});
  }
  if (lane() == 0) mosts[warp()] = own.most;
  if (lane() == 0) sums[warp()] = own.sum;
  __syncthreads();
  Exponentials all = {mosts[0], sums[0]};
  for (int i = 1; i < kLossThreads / kWarp; ++i) all = joined(all, {mosts[i], sums[i]});
  return all;
}

template <int N, class T>
__global__ void cross_entropy_kernel(RowLosses<T> r) {
  T* const row = r.logits + Size{blockIdx.x} * r.vocab;
  const Size target = r.targets[blockIdx.x];
  const bool counts = target >= 0;
  const float of_target = counts ? static_cast<float>(row[target]) : 0;  // before it is written
  Exponentials all;
  if (counts) all = exponentials_of_block(exponentials_of_thread<N>(row, r.vocab));
  const float above = of_target - all.most;
  if (counts && threadIdx.x == 0) {
    r.losses[blockIdx.x] += log(static_cast<double>(all.sum)) - static_cast<double>(above);
  }
  if (!r.with_gradient) return;
  const float factor = counts ? r.scale / all.sum : 0;
  for (Size i = Size{threadIdx.x} * N; i < r.vocab; i += Size{blockDim.x} * N) {
    float values[N] = {};
    if (counts) load(row + i, values);
    for (int k = 0; k < N; ++k) {
      values[k] = counts ? expf(values[k] - all.most) * factor : 0;
      if (i + k == target) values[k] = (expf(above) / all.sum - 1.0F) * r.scale;
    }
    store(values, row + i);
  }
}

}  // namespace

template <class T>
void rms_norm(cudaStream_t stream, const Norm<T>& n) {
  with_pack<T>(
      n.width,
      [&]<int N>(Constant<N>) {
        launch(stream, parts_of(n.rows, kRowsAtATime), kRowsAtATime * kWarp, &rms_norm_kernel<N, T>,
               n);
      },
      n.x, n.weight, n.y);
}

template <class T>
void rms_norm_backward(cudaStream_t stream, const NormGradient<T>& g) {
  with_pack<T>(
      g.width,
      [&]<int N>(Constant<N>) {
        launch(stream, g.parts, kRowsAtATime * kWarp, &rms_norm_backward_kernel<N, T>, g);
      },
      g.dy, g.x, g.weight, g.dsum, g.dx, g.partial);
  if (g.dweight == nullptr) return;
  launch(stream, parts_of(g.width, kWarp), kSlices * kWarp, &add_parts_kernel, g.parts, g.width,
         g.partial, g.dweight);
}

template <class T>
void rope(cudaStream_t stream, const Turned<T>& t) {
  const bool even_rows = t.stride % (16 / sizeof(T)) == 0 && t.width % t.head_dim == 0;
  with_pack<T, 2>(
      even_rows ? t.head_dim : 1,
      [&]<int N>(Constant<N>) { launch(stream, t.rows, kThreads, &rope_kernel<N, T>, t); }, t.x,
      t.rotations);
}

template <class T>
void swiglu(cudaStream_t stream, Size rows, Size width, const T* up_gate, T* h) {
  with_pack<T>(
      width,
      [&]<int N>(Constant<N>) {
        launch(stream, rows, kThreads, &swiglu_kernel<N, T>, width, up_gate, h);
      },
      up_gate, h);
}

template <class T>
void swiglu_backward(cudaStream_t stream, Size rows, Size width, const T* dh, T* up_gate, T* h) {
  with_pack<T>(
      width,
      [&]<int N>(Constant<N>) {
        launch(stream, rows, kThreads, &swiglu_backward_kernel<N, T>, width, dh, up_gate, h);
      },
      dh, up_gate, h);
}

template <class T>
void add(cudaStream_t stream, Size count, const float* stream_values, const T* branch, float* sum) {
  with_pack<T>(
      count,
      [&]<int N>(Constant<N>) {
        launch(stream, parts_of(count, Size{kThreads} * N), kThreads, &add_kernel<N, T>, count,
               stream_values, branch, sum);
      },
      stream_values, branch, sum);
}

template <class T>
void cross_entropy(cudaStream_t stream, const RowLosses<T>& r) {
  with_pack<T>(
      r.vocab,
      [&]<int N>(Constant<N>) {
        launch(stream, r.rows, kLossThreads, &cross_entropy_kernel<N, T>, r);
      },
      r.logits);
}

#define DDPRUN_ROWS(T)                                                       \
  template void rms_norm(cudaStream_t, const Norm<T>&);                      \
  template void rms_norm_backward(cudaStream_t, const NormGradient<T>&);     \
  template void rope(cudaStream_t, const Turned<T>&);                        \
  template void swiglu(cudaStream_t, Size, Size, const T*, T*);              \
  template void swiglu_backward(cudaStream_t, Size, Size, const T*, T*, T*); \
  template void add(cudaStream_t, Size, const float*, const T*, float*);     \
  template void cross_entropy(cudaStream_t, const RowLosses<T>&)
DDPRUN_ROWS(float);
DDPRUN_ROWS(bf16);

}  // namespace ddprun::cuda
