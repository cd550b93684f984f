// The library that takes the place of libddprun_cuda.so.
#include "far_device/far_device.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "ddprun/base/build_id.h"
#include "ddprun/base/clock.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/device/device_library.h"
#include "far_device/far_streams.h"

namespace ddprun::test {

namespace {

/// What a collective failed of. As with NCCL, who waits for the device hears of it, and nobody
/// else.
class FarFailure {
 public:
  void keep(bool late) {
    const std::lock_guard lock(mutex_);
    if (!late_) late_ = late;
  }
  void check() {
    const std::lock_guard lock(mutex_);
    if (!late_) return;
    if (*late_) throw TimeoutError(cause("NCCL: timed out"));
    throw CommError(cause("NCCL: communication error"));
  }

 private:
  std::mutex mutex_;
  std::optional<bool> late_;  // of the first
};

/// What an argument's collective computes with.
at::Tensor near_or_none(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  TORCH_CHECK(tensor.is_cuda(), "NCCL takes the device's tensors alone");
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "NCCL takes tensors without holes alone");
  return near_alias(tensor);
}

/// NCCL's place is gloo's, in the same memory. A collective is done when the call returns, so its
/// future is complete, as those of NCCL are for the host.
class FarBackend final : public CollectiveBackend {
 public:
  FarBackend(const c10::intrusive_ptr<c10d::Backend>& gloo, FarFailure& failure,
             std::chrono::milliseconds timeout)
      : CollectiveBackend(gloo->getRank(), gloo->getSize(), "nccl", timeout),
        gloo_(gloo),
        failure_(failure) {}

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors(),
                                                           std::vector<c10::Device>{far_device});
    const OwnFarStream stream;
    const std::string name = fmt::format("{} '{}'", name_of(arguments.kind), arguments.label);
    far_use(name, arguments.input, /*writes=*/false);
    for (const at::Tensor& output : arguments.outputs) far_use(name, output, /*writes=*/true);
    CollectiveArguments near = arguments;
    near.label = {};
    near.began_ns = {};
    near.input = near_or_none(arguments.input);
    for (at::Tensor& output : near.outputs) output = near_or_none(output);
    if (far_capture == nullptr) {
      collect(near);
    } else {
      for (at::Tensor& tensor : arguments.outputs) tensor = as_captured(tensor);
      arguments.input = as_captured(arguments.input);
      far_capture->calls.emplace_back([this, near, arguments] { collect(near); });
    }
    future->markCompleted(c10::IValue(std::move(arguments.outputs)));
    return c10::make_intrusive<FutureWork>(std::move(future));
  }

  at::Tensor allocateTensor(long elements, at::TensorOptions options) override {
    return at::zeros({elements}, options.device(far_device));
  }
  void shutdown() override { gloo_->shutdown(); }

 private:
  void collect(const CollectiveArguments& near) {
    try {
      if (const auto work = start_on(*gloo_, near)) work->wait();
    } catch (const TimeoutError&) {
      failure_.keep(/*late=*/true);
    } catch (const std::exception&) {
      failure_.keep(/*late=*/false);
    }
  }

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  FarFailure& failure_;
};

struct FarGraph final : CapturedWork {
  void launch() override {
    for (const auto& call : work.calls) call();
  }
  FarCalls work;
};

class FarDevice final : public Device {
 public:
  explicit FarDevice(int index) {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    far_device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
    c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(far_device);
    set_far_stream(kRankStream);
  }

  c10::Device torch_device() const override { return far_device; }

  Mark mark() override {
    if (far_capture == nullptr) return now_ns();
    std::int64_t& time_ns = captured_.emplace_back();
    far_capture->calls.emplace_back([&time_ns] { time_ns = now_ns(); });
    return -std::ssize(captured_);
  }
  std::int64_t time_of(Mark mark) override {
    wait("the time of a mark");
    return mark > 0 ? mark : captured_.at(static_cast<std::size_t>(-mark - 1));
  }
  void synchronize() override {
    wait("synchronize");
    host_waits_for(far_stream());
  }

  std::unique_ptr<CapturedWork> capture(const std::function<void()>& work) override {
    synchronize();
    auto graph = std::make_unique<FarGraph>();
    const FarMemoryBefore before;
    const FarCaptureStreams streams;
    far_capture = &graph->work;
    const auto end = c10::make_scope_exit([] { far_capture = nullptr; });
    try {
      work();
      streams.end();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& failure) {
      throw Error({.what = "the step cannot be captured",
                   .where = far_device.str(),
                   .got = failure.what(),
                   .expected = "operators that do not wait for the device"});
    }
    return graph;
  }
  bool capturing() const override { return far_capture != nullptr; }

  DeviceMemory memory() const override {
    const auto [now, peak, most] = far_bytes();
    return {.allocated_bytes = now,
            .reserved_bytes = most,
            .peak_allocated_bytes = peak,
            .peak_reserved_bytes = most};
  }
  void reset_memory() override { reset_far_peak(); }
  std::int64_t used_memory() const override { return far_bytes().now + kContextBytes; }

  int compute_capability() const override { return kComputeCapability; }
  std::string name() const override { return "far device"; }
  std::vector<std::pair<std::string, std::string>> describe() const override {
    const char* const host = std::getenv("NCCL_HOSTID");
    return {{far_device.str(), name()},
            {"driver", "none"},
            {"nccl variables", host == nullptr ? "none" : std::string("NCCL_HOSTID=") + host},
            {"nccl buffers", "not registered: gloo's"}};
  }
  std::string topology() const override { return rank_ == 0 ? "<system/>\n" : ""; }

  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                 int rank, int world_size,
                                                 std::chrono::milliseconds timeout) override {
    if (rank_ < 0) rank_ = rank;
    CommConfig config;
    config.timeout_s = std::chrono::duration<double>(timeout).count();
    try {
      return c10::make_intrusive<FarBackend>(
          make_gloo_backend(store, rank, world_size, far_device.str(), "127.0.0.1", config),
          failure_, timeout);
    } catch (const std::exception& failure) {
      throw CommError(cause(std::string("NCCL could not connect: ") + failure.what()));
    }
  }

  static constexpr int kComputeCapability = 90;

 private:
  static constexpr std::int64_t kContextBytes = 64 << 20;

  void wait(const std::string& what) {
    refuse_to_wait(what);
    failure_.check();
  }

  std::deque<std::int64_t> captured_;  // the times of mark -m: m - 1
  FarFailure failure_;
  int rank_ = -1;  // in the group of all
};

void probe(DeviceProbe& probe) {
  probe.driver = true;
  probe.count = far_devices();
  probe.compute_capability = FarDevice::kComputeCapability;
  for (int index = 0; index < probe.count; ++index) {
    probe.devices.emplace_back(fmt::format("cuda:{}", index), "far device, 2 GiB");
  }
}

}  // namespace

}  // namespace ddprun::test

extern "C" __attribute__((visibility("default"))) const ddprun::DeviceDescriptor ddprun_device_v1;
const ddprun::DeviceDescriptor ddprun_device_v1 = {
    {sizeof(ddprun::DeviceDescriptor), ddprun::kDeviceApiVersion, DDPRUN_BUILD_ID, "cuda"},
    [](ddprun::DeviceProbe& probe) { ddprun::test::probe(probe); },
    [](int index) -> ddprun::Device* { return new ddprun::test::FarDevice(index); }};
