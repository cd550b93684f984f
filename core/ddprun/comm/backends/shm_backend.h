// The shm backend: collectives over shared memory for the ranks of one host.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/comm/backends/shm_queue.h"
#include "ddprun/comm/group/collective_backend.h"

namespace ddprun {

/// Collectives run one at a time, in the order of the calls: on a thread of its own, or on that of
/// who waits for them. All-reduce and reduce-scatter do sum, avg and max of what can_reduce()
/// allows, with the same bits on all ranks and in all runs. The other collectives take any type.
/// Tensors are contiguous and on the CPU. What the backend cannot do is refused at the call
/// (c10::Error).
///
/// After a failure here or on a peer, every later collective fails with the same words. The
/// destructor makes collectives under way fail, here and on the other ranks.
class ShmBackend final : public CollectiveBackend {
 public:
  /// `store` must be used by this object alone. Throws as ShmChannel does.
  ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
             std::chrono::milliseconds timeout)
      : CollectiveBackend(place.rank, place.size, "shm", timeout), queue_(store, place, timeout) {}

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override;
  /// Zeroed memory that collectives reach without a copy. All ranks must call it; it blocks.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;

 private:
  c10::intrusive_ptr<c10d::Work> run_now(const CollectiveArguments& arguments, ReduceOp op);
  /// Await::batch becomes `later` when 1 MiB has come together.
  Await when(const CollectiveArguments& arguments);

  std::int64_t left_bytes_ = 0;  // of Await::batch, since the queue's thread was last woken for it
  ShmQueue queue_;
};

}  // namespace ddprun
