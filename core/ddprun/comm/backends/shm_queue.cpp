// Queues collectives in shared memory, and allocates that memory.
#include "ddprun/comm/backends/shm_queue.h"

#include <ATen/Functions.h>

#include "ddprun/memory/cpu_memory.h"
#include "ddprun/memory/private_memory.h"

namespace ddprun {

ShmQueue::ShmQueue(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
                   std::chrono::milliseconds timeout, std::shared_ptr<ShmAllocations> allocations)
    : collectives_(store, place, timeout, std::move(allocations)),
      tasks_([this] { collectives_.mark_failed(); }) {}

ShmQueue::~ShmQueue() {
  if (tasks_.busy()) collectives_.abort();
}

void ShmQueue::run(const Run& run) {
  tasks_.run([this, &run] {
    collectives_.set_awaited(true);
    run(collectives_);
  });
}

c10::intrusive_ptr<FutureWork> ShmQueue::submit(std::vector<at::Tensor> results, Run run,
                                                Await await) {
  return tasks_.submit(
      std::move(results),
      [this, run = std::move(run)] {
        collectives_.set_awaited(tasks_.awaited());
        run(collectives_);
      },
      await);
}

at::Tensor ShmQueue::allocate(std::int64_t elements, const at::TensorOptions& options) {
  TORCH_CHECK(options.device().is_cpu() && elements >= 0, "shared memory is on the CPU");
  const auto bytes = elements * static_cast<std::int64_t>(options.dtype().itemsize());
  const ShmPlace& place = collectives_.place();
  if (bytes == 0 || place.size == 1) return allocate_private(elements, options);
  int number = -1;
  run([bytes, &number](ShmCollectives& shm) { number = shm.allocate(bytes); });
  const auto allocations = collectives_.allocations();
  std::byte* const data = allocations->part(number, place.rank);
  const auto counted = CpuMemory::count_bytes(bytes, data);
  return at::from_blob(
      data, {elements}, [allocations, number, counted](void*) { allocations->release(number); },
      options);
}

}  // namespace ddprun
