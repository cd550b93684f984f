// The blocks of a device whose allocator reports them to PyTorch's profiler, as CUDA's does.
#pragma once

#include <c10/core/Allocator.h>

#include <memory>
#include <mutex>

#include "ddprun/memory/memory_source.h"

namespace ddprun {

/// Hears what the allocator of one device reports (c10::reportMemoryUsageToProfiler) on the thread
/// that asked, and on the autograd threads that work for it (c10::DebugInfoGuard, PROFILER_STATE).
/// What other threads allocate or release is not reported to it.
class ReportedMemory final : public c10::MemoryReportingInfoBase, public MemorySource {
 public:
  explicit ReportedMemory(c10::Device device) : device_(device) {}

  /// Hears until the returned object is destroyed, which must happen on this thread too.
  static std::shared_ptr<MemorySource> hear_here(c10::Device device);

  void tell(MemoryListener* listener) override;
  /// `bytes`: of the block; negative: it is released.
  void reportMemoryUsage(void* block, std::int64_t bytes, std::size_t allocated,
                         std::size_t reserved, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return true; }

 private:
  const c10::Device device_;
  std::mutex mutex_;
  MemoryListener* listener_ = nullptr;
};

}  // namespace ddprun
