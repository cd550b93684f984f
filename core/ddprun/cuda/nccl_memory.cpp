// A memory pool over ncclMemAlloc, and the registration of what comes from it.
#include "ddprun/cuda/nccl_memory.h"

#include <ATen/Functions.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/ScopeExit.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <cstdlib>
#include <string_view>
#include <thread>

namespace ddprun::cuda {

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Returns null if there is no memory. The caching allocator then empties its cache, tries again,
/// and throws with the sizes.
void* take(std::size_t bytes, int device, cudaStream_t) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  void* memory = nullptr;
  if (ncclMemAlloc(&memory, bytes) == ncclSuccess) return memory;
  (void)cudaGetLastError();  // it is told by the null
  return nullptr;
}

void give_back(void* memory, std::size_t, int device, cudaStream_t) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  (void)ncclMemFree(memory);
}

/// Empty, from the pool, whatever other threads allocate meanwhile.
at::Tensor empty_in(at::cuda::MemPool& pool, std::int64_t elements,
                    const at::TensorOptions& options) {
  const auto of_this_thread = [thread = std::this_thread::get_id()](cudaStream_t) {
    return std::this_thread::get_id() == thread;
  };
  allocator::beginAllocateToPool(pool.device(), pool.id(), of_this_thread);
  const auto end = c10::make_scope_exit([&pool] {
    allocator::endAllocateToPool(pool.device(), pool.id());
    allocator::releasePool(pool.device(), pool.id());
  });
  return at::empty({elements}, options);
}

/// Why NCCL will not register anything, as far as that is known before it tries.
std::string known_refusal() {
  const char* variable = std::getenv("NCCL_LOCAL_REGISTER");
  if (variable != nullptr && std::string_view(variable) == "0") {
    return "not registered: NCCL_LOCAL_REGISTER is 0";
  }
  if (allocator::CUDAAllocatorConfig::expandable_segments()) {
    return "not registered: PYTORCH_CUDA_ALLOC_CONF asks for expandable segments, which cannot be";
  }
  return {};
}

}  // namespace

NcclMemory::NcclMemory(ncclComm_t communicator, c10::Device device)
    : communicator_(communicator), device_(device), refusal_(known_refusal()) {}

at::Tensor NcclMemory::allocate(std::int64_t elements, const at::TensorOptions& options) {
  const at::TensorOptions on_device = options.device(device_);
  if (!refusal_.empty()) return at::zeros({elements}, on_device);
  const c10::cuda::CUDAGuard guard(device_);
  if (!pool_) {
    pool_ = std::make_unique<at::cuda::MemPool>(
        torch::cuda::CUDAPluggableAllocator::createCustomAllocator(take, give_back));
  }
  const at::Tensor tensor = empty_in(*pool_, elements, on_device);
  tensor.zero_();
  void* handle = nullptr;
  const ncclResult_t result =
      ncclCommRegister(communicator_, tensor.mutable_data_ptr(), tensor.nbytes(), &handle);
  if (result != ncclSuccess) {
    unregister();
    refusal_ = fmt::format("not registered: {} ({})", ncclGetErrorString(result),
                           ncclGetLastError(communicator_));
  } else if (handle == nullptr) {  // NCCL_P2P_USE_CUDA_MEMCPY, or a configuration file
    refusal_ = "not registered: NCCL's settings do not allow it";
  } else {
    handles_.push_back(handle);
    registered_bytes_ += static_cast<std::int64_t>(tensor.nbytes());
  }
  return tensor;
}

void NcclMemory::unregister() {
  for (void* handle : handles_) (void)ncclCommDeregister(communicator_, handle);
  handles_.clear();
}

std::string NcclMemory::words() const {
  if (!refusal_.empty()) return refusal_;
  return fmt::format("registered with NCCL, {:.1f} MiB",
                     static_cast<double>(registered_bytes_) / (1 << 20));
}

}  // namespace ddprun::cuda
