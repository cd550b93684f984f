// Counts the bytes that tensors on the CPU hold, only while someone asks for it.
#pragma once

#include <c10/core/Allocator.h>

#include <mutex>

#include "ddprun/device/device.h"

namespace ddprun {

/// Counts the bytes of tensors on the CPU, from what allocators report to PyTorch's profiler. It
/// counts while it is the newest object of its kind on a thread (c10::DebugInfoGuard,
/// PROFILER_STATE): the allocations on that thread and on the autograd threads that work for it,
/// and the frees of those tensors there.
class CpuMemory final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* data, std::int64_t bytes, std::size_t total_allocated,
                         std::size_t total_reserved, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return true; }

  /// Fills allocated_bytes and peak_allocated_bytes. malloc does not report the rest.
  DeviceMemory memory() const;
  void reset_peak();

  /// Counts on this thread until the returned object is destroyed, which must happen on this thread
  /// too.
  static std::shared_ptr<void> count_here();
  /// The object that counts on this thread, or null.
  static CpuMemory* here();

 private:
  mutable std::mutex mutex_;
  DeviceMemory memory_;
};

}  // namespace ddprun
