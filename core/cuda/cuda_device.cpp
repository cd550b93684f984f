// Marks as CUDA events, memory from the caching allocator.
#include "ddprun/cuda/cuda_device.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "ddprun/config/experiment.h"
#include "ddprun/measure/clock.h"
#include "ddprun/plugin/error.h"

namespace ddprun::cuda {

namespace {

/// A wait asks without pause for so long, then rarely: what the device still has to do is then
/// long.
constexpr std::int64_t kAwakeNs = 2'000'000;
constexpr auto kPause = std::chrono::microseconds(50);

c10::Device checked_device(int index) {
  const int count = c10::cuda::device_count();
  if (index >= count) {
    throw ConfigError({.what = "each rank needs a device of its own",
                       .where = "local rank " + std::to_string(index),
                       .got = std::to_string(count) + " CUDA devices are visible",
                       .expected = {},
                       .hint = "fewer ranks, or more devices in CUDA_VISIBLE_DEVICES"});
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

CommError cannot_end(c10::Device device, std::string got) {
  return CommError({.what = "a collective on the GPU cannot end",
                    .where = device.str(),
                    .got = std::move(got),
                    .expected = {},
                    .hint = "a rank is missing, hangs, or is slower than the limit `timeout_s` "
                            "under `world:` allows"});
}

std::string words_of(c10d::ErrorType error) {
  switch (error) {
    case c10d::ErrorType::SUCCESS:
      return {};
    case c10d::ErrorType::TIMEOUT:
      return "NCCL: timed out";
    case c10d::ErrorType::COMM_ERROR:
      return "NCCL: communication error";
    case c10d::ErrorType::REMOTE_ERROR:
      return "NCCL: error on another rank";
  }
  return "NCCL: unknown error";
}

}  // namespace

CudaDevice::CudaDevice(int index)
    : device_(checked_device(index)), backend_(c10::intrusive_ptr<c10d::Backend>()) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::set_device(device_.index());
  c10::cuda::setCurrentCUDAStream(
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index()));
  set_anchor();
}

Mark CudaDevice::mark() {
  const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
  const std::lock_guard lock(mutex_);
  if (capturing_) {
    captured_events_.emplace_back().record_in_graph(stream);
    return -static_cast<Mark>(captured_events_.size());
  }
  const Mark mark = next_++;
  const auto slot = static_cast<std::size_t>(mark % kKeptMarks);
  while (events_.size() <= slot) events_.emplace_back();
  events_[slot].record(stream);
  return mark;
}

const Event& CudaDevice::event_of(Mark mark) {
  const std::lock_guard lock(mutex_);
  const bool kept = mark > 0 ? mark < next_ && mark >= next_ - kKeptMarks
                             : mark < 0 && -mark <= std::ssize(captured_events_) && launched_ > 0;
  if (!kept) {
    throw Error({.what = "the time of a mark was asked for that is not kept any more",
                 .where = device_.str(),
                 .got = "mark " + std::to_string(mark),
                 .expected = "one of the last " + std::to_string(kKeptMarks),
                 .hint = {}});
  }
  return mark > 0 ? events_[static_cast<std::size_t>(mark % kKeptMarks)]
                  : captured_events_[static_cast<std::size_t>(-mark - 1)];
}

std::int64_t CudaDevice::time_of(Mark mark) {
  const Event& event = event_of(mark);
  const Mark reached = mark > 0 ? mark : launched_;
  wait_for(event_of(reached));
  const std::lock_guard lock(mutex_);
  // CUDA is asked for distances forward in time only.
  const double ms = reached < anchor_mark_ ? -static_cast<double>(event.ms_to(anchor_))
                                           : static_cast<double>(anchor_.ms_to(event));
  return anchor_ns_ + std::llround(ms * 1e6);
}

void CudaDevice::synchronise() {
  Event now;
  wait_for(now);
  set_anchor();
}

void CudaDevice::set_anchor() {
  const std::lock_guard lock(mutex_);
  anchor_.record(c10::cuda::getCurrentCUDAStream(device_.index()));
  anchor_.synchronise();
  anchor_ns_ = now_ns();
  anchor_mark_ = next_;
}

void CudaDevice::wait_for(const Event& event) const {
  const std::int64_t begin_ns = now_ns();
  while (!event.done()) {
    const std::int64_t waited_ns = now_ns() - begin_ns;
    if (waited_ns < kAwakeNs) continue;
    std::this_thread::sleep_for(kPause);
    const auto backend = backend_.lock();
    const std::string failure = backend ? words_of(backend->getError()) : std::string();
    if (!failure.empty()) throw cannot_end(device_, failure);
    if (limit_ns_ > 0 && waited_ns > limit_ns_) {
      throw cannot_end(device_,
                       "no end within " + std::to_string(limit_ns_ / 1'000'000'000) + " s");
    }
  }
}

DeviceMemory CudaDevice::memory() const {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
  const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated_bytes = stats.allocated_bytes[all].current,
          .reserved_bytes = stats.reserved_bytes[all].current,
          .peak_allocated_bytes = stats.allocated_bytes[all].peak,
          .peak_reserved_bytes = stats.reserved_bytes[all].peak,
          .retries = stats.num_alloc_retries};
}

void CudaDevice::reset_memory() {
  c10::cuda::CUDACachingAllocator::resetPeakStats(device_.index());
  c10::cuda::CUDACachingAllocator::resetAccumulatedStats(device_.index());
}

std::unique_ptr<MemoryHistory> CudaDevice::record_memory() { return record_memory_history(); }

std::string CudaDevice::name() const { return gpu_name(device_.index()); }

std::vector<std::pair<std::string, std::string>> CudaDevice::describe() const {
  auto facts = describe_software();
  facts.emplace(facts.begin(), device_.str(), describe_gpu(device_.index()));
  return facts;
}

c10::intrusive_ptr<c10d::Backend> CudaDevice::make_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
    const CommConfig& config) {
  if (config.backend != "auto" && config.backend != "nccl") {
    throw ConfigError({.what = "ranks on GPUs are joined by NCCL",
                       .where = "world.backend",
                       .got = config.backend,
                       .expected = "auto or nccl",
                       .hint = {}});
  }
  auto backend = make_nccl_backend(store, rank, world_size, device_, config);
  limit_ns_ = static_cast<std::int64_t>(config.timeout_s * 1e9);
  backend_ = c10::weak_intrusive_ptr<c10d::Backend>(backend);
  return backend;
}

}  // namespace ddprun::cuda
