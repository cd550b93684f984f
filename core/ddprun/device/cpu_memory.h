// How many bytes tensors on the CPU hold, counted while someone asks.
#pragma once

#include <c10/core/Allocator.h>

#include <mutex>

#include "ddprun/device/device.h"

namespace ddprun {

/// The bytes of tensors on the CPU, from what allocators report to PyTorch's profiler. Counts while
/// it is the newest of its kind (c10::DebugInfoGuard, PROFILER_STATE) on a thread: of allocations
/// there and on autograd's threads behind it, and of every tensor among these that is freed there.
class CpuMemory final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* data, std::int64_t bytes, std::size_t total_allocated,
                         std::size_t total_reserved, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return true; }

  /// allocated_bytes and peak_allocated_bytes; malloc says nothing of the rest.
  DeviceMemory memory() const;
  void reset_peak();

  /// Counts on this thread until the returned object is gone, which must end here too.
  static std::shared_ptr<void> count_here();
  /// What counts on this thread; null: nothing.
  static CpuMemory* here();

 private:
  mutable std::mutex mutex_;
  DeviceMemory memory_;
};

}  // namespace ddprun
