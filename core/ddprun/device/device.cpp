// The CPU as a device: whatever it was told is done when the call returns.
#include "ddprun/device/device.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/device/memory_history.h"
#include "ddprun/memory/cpu_memory.h"
#include "ddprun/memory/reported_memory.h"

namespace ddprun {

namespace {

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
  return ReportedMemory::hear_here(torch_device());
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
