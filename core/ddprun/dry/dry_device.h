// Device meta, whose time is how much was computed.
#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <vector>

#include "ddprun/device/device.h"

namespace ddprun {

/// Its marks are numbers in the order of their making, and time_of() such a mark is that number:
/// what a CollectiveRecord has for times. One at a time.
class DryDevice final : public Device {
 public:
  /// Counts what products would compute from now on, ATen's and those of kernels that name
  /// themselves.
  DryDevice();
  ~DryDevice() override;

  /// The operations of all products so far.
  double operations() const;
  /// How many there had been at a mark.
  double operations_at(Mark mark) const { return marks_[static_cast<std::size_t>(mark) - 1]; }

  c10::Device torch_device() const override { return c10::kMeta; }
  Mark mark() override;
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronize() override {}
  std::unique_ptr<CapturedWork> capture(const std::function<void()>&) override { return nullptr; }
  bool capturing() const override { return false; }
  DeviceMemory memory() const override { return {}; }
  void reset_memory() override {}
  std::vector<std::pair<std::string, std::string>> describe() const override { return {}; }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                 std::chrono::milliseconds) override {
    return {};
  }

 private:
  at::CallbackHandle products_;
  std::vector<double> marks_;
};

}  // namespace ddprun
