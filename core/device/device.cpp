// The CPU as a device: whatever it was told is done when the call returns.
#include "ddprun/device/device.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/measure/clock.h"

namespace ddprun {

namespace {

class CpuDevice final : public Device {
 public:
  c10::Device torch_device() const override { return c10::kCPU; }
  Mark mark() override { return now_ns(); }
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronise() override {}
  std::unique_ptr<CapturedWork> capture(const std::function<void()>&) override { return nullptr; }
  bool capturing() const override { return false; }
  DeviceMemory memory() const override { return {}; }
  void reset_memory() override {}
  std::vector<std::pair<std::string, std::string>> describe() const override { return {}; }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                 const CommConfig&) override {
    return {};
  }
};

}  // namespace

CapturedWork::~CapturedWork() = default;
Device::~Device() = default;

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace ddprun
