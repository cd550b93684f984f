// The queue of collectives in shared memory: in the order of the calls, on its thread or on that of
// who waits.
#pragma once

#include <functional>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/comm/backends/shm_collectives.h"
#include "ddprun/comm/backends/task_queue.h"

namespace ddprun {

/// Runs what is submitted, one at a time. After a failure here or on a peer, everything later fails
/// with the same words. Any thread may submit.
class ShmQueue {
 public:
  using Run = std::function<void(ShmCollectives&)>;

  /// Throws as ShmCollectives does.
  ShmQueue(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
           std::chrono::milliseconds timeout,
           std::shared_ptr<ShmAllocations> allocations = std::make_shared<ShmAllocations>());
  /// Makes what is under way or queued fail, here and on the other ranks.
  ~ShmQueue();

  /// As those of TaskQueue.
  void run(const Run& run);
  c10::intrusive_ptr<FutureWork> submit(std::vector<at::Tensor> results, Run run,
                                        Await await = Await::later);

  /// Zeroed memory that collectives reach without a copy. All ranks must call it; it blocks.
  at::Tensor allocate(std::int64_t elements, const at::TensorOptions& options);
  const std::shared_ptr<ShmAllocations>& allocations() const { return collectives_.allocations(); }

 private:
  ShmCollectives collectives_;
  TaskQueue tasks_;  // last: its thread uses the above
};

}  // namespace ddprun
