// Memory registered with NCCL, so that collectives read and write it in place.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/MemPool.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun::cuda {

/// Allocates by ncclMemAlloc and registers each allocation with one communicator (NCCL's user
/// guide, "User Buffer Registration"). The allocations go through a pool of the caching allocator,
/// so they are counted as all memory is. They may outlive this object.
class NcclMemory {
 public:
  /// `communicator` outlives this object, or ends before by ncclCommAbort, which unregisters
  /// everything.
  NcclMemory(ncclComm_t communicator, c10::Device device);

  /// A zeroed tensor (elements,) on the device, registered unless words() says why not. Throws
  /// c10::OutOfMemoryError.
  at::Tensor allocate(std::int64_t elements, const at::TensorOptions& options);

  /// Unregisters everything. Call it before the communicator is finalized.
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
