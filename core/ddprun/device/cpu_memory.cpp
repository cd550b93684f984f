// Sums what PyTorch's allocator of the CPU reports.
#include "ddprun/device/cpu_memory.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>

namespace ddprun {

void CpuMemory::reportMemoryUsage(void* /*data*/, std::int64_t bytes,
                                  std::size_t /*total_allocated*/, std::size_t /*total_reserved*/,
                                  c10::Device device) {
  if (!device.is_cpu()) return;
  const std::lock_guard lock(mutex_);
  memory_.allocated_bytes += bytes;
  memory_.peak_allocated_bytes = std::max(memory_.peak_allocated_bytes, memory_.allocated_bytes);
}

DeviceMemory CpuMemory::memory() const {
  const std::lock_guard lock(mutex_);
  return memory_;
}

void CpuMemory::reset_peak() {
  const std::lock_guard lock(mutex_);
  memory_.peak_allocated_bytes = memory_.allocated_bytes;
}

std::shared_ptr<void> CpuMemory::count_here() {
  return std::make_shared<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE,
                                               std::make_shared<CpuMemory>());
}

CpuMemory* CpuMemory::here() {
  return dynamic_cast<CpuMemory*>(
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

}  // namespace ddprun
