// Takes the place of CUDA's header of this name, so that a C++ compiler reads kernels as functions
// and a CPU runs them: block by block, the threads of a block in turns, each up to the next
// barrier.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __shared__ static  // blocks run one after another

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess };
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};
inline const char* cudaGetErrorString(cudaError_t) { return ""; }

namespace ddprun::test {

/// Calls `thread` as each thread of each block, in an order that is another one each time. Throws
/// Error where threads wait for each other at different places, as they would for good.
void run_blocks(dim3 blocks, dim3 threads, const std::function<void()>& thread);

/// Returns when all threads of the block, or of the warp, that have not ended are here.
void wait_for_block();
void wait_for_warp();
/// Of the calling thread's warp, 8 bytes a lane. The calls of a thread return two places in turn: a
/// lane may write its next value where another one has yet to read this one.
std::uint64_t* warp_slots();

}  // namespace ddprun::test

inline void __syncthreads() { ddprun::test::wait_for_block(); }

template <class T>
T __shfl_xor_sync(unsigned /*lanes*/, T value, int distance) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t* const slots = ddprun::test::warp_slots();
  const unsigned lane = threadIdx.x % 32;
  std::memcpy(&slots[lane], &value, sizeof(T));
  ddprun::test::wait_for_warp();
  std::memcpy(&value, &slots[lane ^ static_cast<unsigned>(distance)], sizeof(T));
  return value;
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  ddprun::test::run_blocks(config->gridDim, config->blockDim, [&] { kernel(arguments...); });
  return cudaSuccess;
}
