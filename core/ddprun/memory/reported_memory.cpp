// PyTorch's reports of one device, handed on.
#include "ddprun/memory/reported_memory.h"

#include <c10/util/ThreadLocalDebugInfo.h>

namespace ddprun {

namespace {

/// Of a thread that hears.
struct Hearing {
  explicit Hearing(c10::Device device)
      : source(std::make_shared<ReportedMemory>(device)),
        here(c10::DebugInfoKind::PROFILER_STATE, source) {}

  std::shared_ptr<ReportedMemory> source;
  c10::DebugInfoGuard here;
};

}  // namespace

std::shared_ptr<MemorySource> ReportedMemory::hear_here(c10::Device device) {
  const auto hearing = std::make_shared<Hearing>(device);
  return {hearing, hearing->source.get()};
}

void ReportedMemory::tell(MemoryListener* listener) {
  const std::lock_guard lock(mutex_);
  listener_ = listener;
}

void ReportedMemory::reportMemoryUsage(void* block, std::int64_t bytes, std::size_t /*allocated*/,
                                       std::size_t /*reserved*/, c10::Device device) {
  if (device != device_) return;
  const std::lock_guard lock(mutex_);
  if (listener_ == nullptr) return;
  if (bytes > 0) {
    listener_->on_allocated(block, bytes, /*lent=*/false);
  } else {
    listener_->on_released(block);
  }
}

}  // namespace ddprun
