// Queues collectives and runs them on the progress thread.
#include "ddprun/comm/shm_queue.h"

#include <ATen/Functions.h>

#include "ddprun/base/private_memory.h"
#include "ddprun/comm/future_work.h"

namespace ddprun {

ShmQueue::ShmQueue(const c10::intrusive_ptr<c10d::Store>& store, const ShmPlace& place,
                   std::chrono::milliseconds timeout, std::shared_ptr<ShmAllocations> allocations)
    : collectives_(store, place, timeout, std::move(allocations)),
      thread_([this] { progress(); }) {}

ShmQueue::~ShmQueue() {
  bool busy = false;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    busy = !tasks_.empty();
  }
  if (busy) collectives_.abort();
  changed_.notify_one();
  thread_.join();
}

void ShmQueue::progress() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task& task = tasks_.front();  // stays there while it runs: no place in a deque moves
    lock.unlock();
    run(task);
    lock.lock();
    tasks_.pop_front();
  }
}

void ShmQueue::run(Task& task) {
  if (!failure_) {
    try {
      task.run(collectives_);
    } catch (const std::exception&) {
      failure_ = std::current_exception();
      collectives_.mark_failed();
    }
  }
  if (failure_) {
    task.future->setError(failure_);
  } else {
    task.future->markCompleted(c10::IValue(task.results));
  }
}

c10::intrusive_ptr<c10d::Work> ShmQueue::submit(std::vector<at::Tensor> results, Run run) {
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(run), std::move(results), future});
  }
  changed_.notify_one();
  return c10::make_intrusive<FutureWork>(std::move(future));
}

at::Tensor ShmQueue::allocate(std::int64_t elements, const at::TensorOptions& options) {
  TORCH_CHECK(options.device().is_cpu() && elements >= 0, "shared memory is on the CPU");
  const auto bytes = elements * static_cast<std::int64_t>(options.dtype().itemsize());
  const ShmPlace& place = collectives_.place();
  if (bytes == 0 || place.size == 1) return allocate_private(elements, options);
  int number = -1;
  submit({}, [bytes, &number](ShmCollectives& shm) { number = shm.allocate(bytes); })->wait();
  const auto allocations = collectives_.allocations();
  std::byte* const data = allocations->part(number, place.rank);
  c10::reportMemoryUsageToProfiler(data, bytes, 0, 0, c10::kCPU);  // as allocators do
  return at::from_blob(
      data, {elements},
      [allocations, number, bytes](void* mine) {
        c10::reportMemoryUsageToProfiler(mine, -bytes, 0, 0, c10::kCPU);
        allocations->release(number);
      },
      options);
}

}  // namespace ddprun
