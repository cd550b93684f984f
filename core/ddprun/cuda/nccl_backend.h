// What the NCCL backend tells the CUDA device besides its collectives.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "ddprun/base/error.h"

namespace ddprun::cuda {

class NcclState {
 public:
  virtual ~NcclState() = default;
  /// Throws CommError if collectives under way cannot end, or were aborted. Any thread may call it.
  virtual void check() = 0;
  /// Whether NCCL has registered the memory that allocateTensor() gave, in words for reports.
  virtual std::string buffers() const = 0;
  /// NCCL's own view of this host, as XML. Empty on all ranks but 0, and if the user has NCCL dump
  /// it.
  virtual const std::string& topology() const = 0;
};

/// Of a collective on the GPU that failed or cannot end. `got` says how that shows.
ErrorText collective_failed(c10::Device device, std::string got);

/// Returns a connected ProcessGroupNCCL on the device, which is an NcclState as well. Connecting
/// may take `timeout`. Throws CommError, or c10::OutOfMemoryError if the device's memory
/// does not suffice.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, c10::Device device,
                                                    std::chrono::milliseconds timeout);

}  // namespace ddprun::cuda
