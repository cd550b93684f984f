// The CPU as a device: whatever it was told is done when the call returns.
#include "ddprun/device/device.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <mutex>

#include "ddprun/base/clock.h"
#include "ddprun/device/memory_history.h"
#include "ddprun/memory/cpu_memory.h"
#include "ddprun/memory/memory_source.h"

namespace ddprun {

namespace {

/// The blocks of a device whose allocator reports them to PyTorch's profiler, as CUDA's does
/// (c10::reportMemoryUsageToProfiler), on the thread that asked and on the autograd threads that
/// work for it. What other threads allocate or release is not reported to it.
class ReportedMemory final : public c10::MemoryReportingInfoBase, public MemorySource {
 public:
  explicit ReportedMemory(c10::Device device) : device_(device) {}

  void tell(MemoryListener* listener) override {
    const std::lock_guard lock(mutex_);
    listener_ = listener;
  }
  /// `bytes`: of the block; negative: it is released.
  void reportMemoryUsage(void* block, std::int64_t bytes, std::size_t /*allocated*/,
                         std::size_t /*reserved*/, c10::Device device) override {
    if (device != device_) return;
    const std::lock_guard lock(mutex_);
    if (listener_ == nullptr) return;
    if (bytes > 0) {
      listener_->on_allocated(block, bytes, /*lent=*/false);
    } else {
      listener_->on_released(block);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  const c10::Device device_;
  std::mutex mutex_;
  MemoryListener* listener_ = nullptr;
};

/// Of a thread that hears. It is destroyed on that thread.
struct Hearing {
  explicit Hearing(c10::Device device) : source(std::make_shared<ReportedMemory>(device)) {}

  std::shared_ptr<ReportedMemory> source;
  c10::DebugInfoGuard here = {c10::DebugInfoKind::PROFILER_STATE, source};
};

class CpuDevice final : public Device {
 public:
  c10::Device torch_device() const override { return c10::kCPU; }
  bool works_behind() const override { return false; }
  Mark mark() override { return now_ns(); }
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronize() override {}
  DeviceMemory memory() const override {
    DeviceMemory memory;  // malloc does not report the rest
    if (const CpuMemory* counted = CpuMemory::here(); counted != nullptr) {
      memory.allocated_bytes = counted->bytes();
      memory.peak_allocated_bytes = counted->peak_bytes();
    }
    return memory;
  }
  void reset_memory() override {
    if (CpuMemory* counted = CpuMemory::here(); counted != nullptr) counted->reset_peak();
  }
  std::shared_ptr<void> count_memory() override { return CpuMemory::count_here(); }
  std::shared_ptr<MemorySource> memory_blocks() override {
    CpuMemory* const counted = CpuMemory::here();
    return counted == nullptr ? nullptr : counted->shared_from_this();
  }
};

}  // namespace

CapturedWork::~CapturedWork() = default;
Device::~Device() = default;
std::unique_ptr<CapturedWork> Device::capture(const std::function<void()>& /*work*/) {
  return nullptr;
}
std::shared_ptr<void> Device::count_memory() { return nullptr; }
std::shared_ptr<MemorySource> Device::memory_blocks() {
  const auto hearing = std::make_shared<Hearing>(torch_device());
  return {hearing, hearing->source.get()};
}
std::unique_ptr<MemoryHistory> Device::record_memory() { return nullptr; }
std::string Device::name() const { return {}; }
c10::intrusive_ptr<c10d::Backend> Device::make_backend(const c10::intrusive_ptr<c10d::Store>&, int,
                                                       int, std::chrono::milliseconds) {
  return {};
}

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace ddprun
