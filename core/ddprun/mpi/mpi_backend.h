// The mpi backend: collectives of MPI, on the CPU.
#pragma once

#include <mpi.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "ddprun/comm/backends/task_queue.h"
#include "ddprun/comm/group/comm_config.h"
#include "ddprun/mpi/mpi_session.h"

namespace ddprun::mpi {

/// Each collective is MPI's blocking one, on a thread of its own, one at a time, in the order of
/// the calls: MPI's non-blocking collectives are other, slower algorithms. All-reduce and
/// reduce-scatter do sum, avg and max of the types that MPI has (backend_lacks()). The other
/// collectives take any type. Tensors are contiguous and on the CPU, of 2^31 - 1 elements at most
/// (a slice of them, where there are slices), because MPI counts in int. What the backend cannot do
/// is refused at the call (c10::Error).
///
/// MPI cannot end a collective that waits for a rank which does not come. After config.timeout_s it
/// is given up: it and all later ones fail, and this process makes no group over MPI any more.
class MpiBackend final : public c10d::Backend {
 public:
  /// All ranks of MPI_COMM_WORLD call it. Throws std::runtime_error.
  MpiBackend(Session& session, const CommConfig& config);
  ~MpiBackend() override;

  const std::string getBackendName() const override { return "mpi"; }
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

  /// Ordinary memory: MPI copies between processes by itself.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;

  /// Ends in order. All ranks call it, with no collective under way.
  void shutdown() override;

 private:
  c10::intrusive_ptr<c10d::Work> all_reduce(const std::vector<at::Tensor>& tensors,
                                            const c10d::ReduceOp& op);

  Session& session_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  bool ended_ = false;
  c10::intrusive_ptr<Options> options_;
  TaskQueue tasks_;  // last: its thread uses the above
};

}  // namespace ddprun::mpi
