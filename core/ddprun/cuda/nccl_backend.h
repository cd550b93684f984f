// What the CUDA device asks of its NCCL backend besides collectives.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "ddprun/base/error.h"

namespace ddprun::cuda {

class NcclState {
 public:
  virtual ~NcclState() = default;
  /// Why collectives under way cannot end, or were ended before they were done; empty if all is
  /// well. Any thread.
  virtual std::string failure() = 0;
  /// Whether NCCL has registered the memory that allocateTensor() gave, in words for reports.
  virtual std::string buffers() const = 0;
  /// NCCL's own view of this host, XML; empty on other ranks than 0, and if the user has it dumped.
  virtual const std::string& topology() const = 0;
};

/// What is thrown where a collective on the GPU cannot end, or has not; `got`: how that shows.
CommError collective_failed(c10::Device device, std::string got);

/// ProcessGroupNCCL on the device, connected; an NcclState as well. It holds `timeout` for
/// connecting. Throws CommError; c10::OutOfMemoryError if the device's memory does not suffice.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, c10::Device device,
                                                    std::chrono::milliseconds timeout);

}  // namespace ddprun::cuda
