// Memory that NCCL has registered, so that collectives read and write it where it lies.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/MemPool.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun::cuda {

/// Allocates by ncclMemAlloc, through a pool of the caching allocator (so it is counted as all
/// memory is), and registers each allocation with one communicator. The memory may outlive this.
/// NCCL's user guide, "User Buffer Registration".
class NcclMemory {
 public:
  /// `communicator`: outlives this, or ends by ncclCommAbort before, which unregisters all.
  NcclMemory(ncclComm_t communicator, c10::Device device);

  /// A zeroed tensor (elements,) on the device, registered unless words() says why not. Throws
  /// c10::OutOfMemoryError.
  at::Tensor allocate(std::int64_t elements, const at::TensorOptions& options);

  /// Unregisters everything: before the communicator ends in order.
  void unregister();

  /// "registered with NCCL, 12.3 MiB", or why not.
  std::string words() const;

 private:
  ncclComm_t communicator_;
  c10::Device device_;
  std::string refusal_;  // why nothing is registered (any more); empty: it is
  std::unique_ptr<at::cuda::MemPool> pool_;
  std::vector<void*> handles_;
  std::int64_t registered_bytes_ = 0;
};

}  // namespace ddprun::cuda
