// AdamW: bound by memory. Compiled without contraction (CMakeLists.txt), as on the CPU.
#include "ddprun/cuda/kernels/optimizer.h"
#include "ddprun/cuda/kernels/packs.cuh"

namespace ddprun::cuda {

namespace {

constexpr int kAdamwThreads = 256;
constexpr int kPacksOfThread = 4;

using kernels::AdamwFactors;

template <int N, class G, class P, class M>
__device__ void update(const AdamwFactors& f, const AdamwArrays<G, P, M>& a, Size i) {
  float g[N], p[N], m[N], v[N];
  load(a.gradient + i, g);
  load(a.parameter + i, p);
  load(a.mean + i, m);
  load(a.square + i, v);
  for (int k = 0; k < N; ++k) {
    const float gradient = g[k] * f.gradient_scale;
    m[k] = m[k] + f.beta1_complement * (gradient - m[k]);
    v[k] = f.beta2 * v[k] + f.beta2_complement * gradient * gradient;
    const float denominator = sqrtf(v[k]) / f.bias2_sqrt + f.eps;
    p[k] = p[k] * f.decay - f.step_size * m[k] / denominator;
  }
  store(m, a.mean + i);
  store(v, a.square + i);
  store(p, a.parameter + i);
  if (a.copy != nullptr) store(p, a.copy + i);
}

template <int N, class G, class P, class M>
__global__ void adamw_kernel(AdamwState state, AdamwArrays<G, P, M> arrays) {
  if (state.overflow != nullptr && *state.overflow > 0) return;
  __shared__ AdamwFactors factors;
  if (threadIdx.x == 0) {
    const float scale = state.factor == nullptr ? 1.0F : *state.factor;
    factors = kernels::adamw_factors(state.settings, *state.lr, *state.steps, scale);
  }
  __syncthreads();
  Size i = (Size{blockIdx.x} * kPacksOfThread * blockDim.x + threadIdx.x) * N;
  for (int pack = 0; pack < kPacksOfThread && i < arrays.count; ++pack) {
    update<N>(factors, arrays, i);
    i += Size{blockDim.x} * N;
  }
}

}  // namespace

template <class G, class P, class M>
void adamw(cudaStream_t stream, const AdamwState& state, const AdamwArrays<G, P, M>& a) {
  with_pack<float>(
      a.count,
      [&]<int N>(Constant<N>) {
        launch(stream, parts_of(a.count, Size{kAdamwThreads} * kPacksOfThread * N), kAdamwThreads,
               &adamw_kernel<N, G, P, M>, state, a);
      },
      a.gradient, a.parameter, a.mean, a.square, a.copy);
}

#define DDPRUN_ADAMW(G, P, M) \
  template void adamw(cudaStream_t, const AdamwState&, const AdamwArrays<G, P, M>&)
DDPRUN_ADAMW(float, float, float);
DDPRUN_ADAMW(float, bf16, float);
DDPRUN_ADAMW(float, float, bf16);
DDPRUN_ADAMW(float, bf16, bf16);
DDPRUN_ADAMW(bf16, float, float);
DDPRUN_ADAMW(bf16, bf16, float);
DDPRUN_ADAMW(bf16, float, bf16);
DDPRUN_ADAMW(bf16, bf16, bf16);

}  // namespace ddprun::cuda
