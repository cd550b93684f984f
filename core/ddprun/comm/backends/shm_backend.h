// The shm backend: collectives over shared memory for the ranks of one host.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/comm/backends/shm_queue.h"
#include "ddprun/comm/group/comm_config.h"

namespace ddprun {

/// Collectives run on a thread of its own, one at a time, in the order of the calls. All-reduce and
/// reduce-scatter do sum, avg and max of what can_reduce() allows, with the same bits on all ranks
/// and in all runs. The other collectives take any type. Tensors are contiguous and on the CPU.
/// What the backend cannot do is refused at the call (c10::Error).
///
/// After a failure here or on a peer, every later collective fails with the same words. The
/// destructor makes collectives under way fail, here and on the other ranks.
class ShmBackend final : public c10d::Backend {
 public:
  /// `store` must be used by this object alone. `members`: as ShmPlace has them. Throws as
  /// ShmChannel does.
  ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
             const CommConfig& config, std::vector<int> members = {});

  const std::string getBackendName() const override { return "shm"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  /// Zeroed memory that collectives reach without a copy. All ranks must call it; it blocks.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;

 private:
  ShmQueue queue_;
  c10::intrusive_ptr<Options> options_;
};

}  // namespace ddprun
