// How kernels are launched, and how they read and write 16 bytes at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace ddprun::cuda {

using Size = std::int64_t;

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, Size blocks, int threads, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  if (blocks == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  const cudaError_t error =
      cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
  }
}

inline Size parts_of(Size count, Size part) { return (count + part - 1) / part; }

template <int count>
using Constant = std::integral_constant<int, count>;

inline bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Calls f(Constant<N>) with the elements of T that a thread takes at a time: 16 bytes of them if
/// `length` and all pointers allow that, or else `least`.
template <class T, int least = 1, class F, class... Pointers>
void with_pack(Size length, const F& f, const Pointers*... pointers) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  if (length % kMost == 0 && (aligned(pointers) && ...)) {
    f(Constant<kMost>());
  } else {
    f(Constant<least>());
  }
}

template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

template <int N, class T>
__device__ void load(const T* from, float (&to)[N]) {
  const auto pack = *reinterpret_cast<const Pack<T, N>*>(from);
  for (int k = 0; k < N; ++k) to[k] = static_cast<float>(pack.at[k]);
}

template <int N, class T>
__device__ void store(const float (&from)[N], T* to) {
  Pack<T, N> pack;
  for (int k = 0; k < N; ++k) pack.at[k] = static_cast<T>(from[k]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

}  // namespace ddprun::cuda
