// Counts the bytes that tensors on the CPU hold, only while someone asks for it.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "ddprun/memory/memory_source.h"

namespace ddprun {

/// Counts the bytes of tensors on the CPU. Of the allocations it counts those on the thread that
/// asked, and on the autograd threads that work for it, while it is the newest object of its kind
/// there (c10::DebugInfoGuard, PROFILER_STATE). Their frees count wherever they happen: a thread of
/// a backend may be the last to hold a tensor, and what PyTorch reports to its profiler lacks that.
class CpuMemory final : public c10::MemoryReportingInfoBase,
                        public MemorySource,
                        public std::enable_shared_from_this<CpuMemory> {
 public:
  /// PyTorch's own reports are not used.
  void reportMemoryUsage(void*, std::int64_t, std::size_t, std::size_t, c10::Device) override {}
  bool memoryProfilingEnabled() const override { return false; }

  /// What tensors hold now.
  std::int64_t bytes() const;
  /// The most since reset_peak().
  std::int64_t peak_bytes() const;
  void reset_peak();
  void tell(MemoryListener* listener) override;

  /// Counts on this thread until the returned object is destroyed, which must happen on this thread
  /// too.
  static std::shared_ptr<void> count_here();
  /// Counts `bytes` at `address` here, if someone does, until the result is destroyed, on whatever
  /// thread. For memory that no allocator of PyTorch's gives out. If `lent`, they lie within others
  /// that are counted, and who listens alone hears of them.
  static std::shared_ptr<void> count_bytes(std::int64_t bytes, const void* address,
                                           bool lent = false);
  /// The object that counts on this thread, or null.
  static CpuMemory* here();

 private:
  void add(std::int64_t bytes, const void* block, bool lent);
  void remove(std::int64_t bytes, const void* block, bool lent);

  mutable std::mutex mutex_;
  std::int64_t bytes_ = 0, peak_bytes_ = 0;
  MemoryListener* listener_ = nullptr;
};

}  // namespace ddprun
