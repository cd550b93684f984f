// The mpi backend: collectives of MPI, on the CPU.
#pragma once

#include <mpi.h>

#include "ddprun/comm/backends/task_queue.h"
#include "ddprun/comm/group/collective_backend.h"
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
class MpiBackend final : public CollectiveBackend {
 public:
  /// All ranks of MPI_COMM_WORLD call it. Throws std::runtime_error.
  MpiBackend(Session& session, const CommConfig& config);
  ~MpiBackend() override;

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override;
  /// Ordinary memory: MPI copies between processes by itself.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;

  /// Ends in order. All ranks call it, with no collective under way.
  void shutdown() override;

 private:
  void all_reduce(const CollectiveArguments& arguments, ReduceOp op) const;
  void reduce_scatter(const CollectiveArguments& arguments, ReduceOp op) const;
  void all_gather(const CollectiveArguments& arguments) const;
  void run(const CollectiveArguments& arguments, ReduceOp op) const;

  Session& session_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  bool ended_ = false;
  TaskQueue tasks_;  // last: its thread uses the above
};

}  // namespace ddprun::mpi
