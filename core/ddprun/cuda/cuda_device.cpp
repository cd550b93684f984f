// Marks as CUDA events, memory from the caching allocator.
#include "ddprun/cuda/cuda_device.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "ddprun/base/clock.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/cuda/nccl_backend.h"

namespace ddprun::cuda {

namespace {

/// A wait asks without pause for this long, and then rarely, because the device then has a lot left
/// to do.
constexpr std::int64_t kAwakeNs = 2'000'000;
constexpr auto kPause = std::chrono::microseconds(50);
/// The backend's watchdog looks ten times a second.
constexpr std::int64_t kSlackNs = 1'000'000'000;
/// How long work under way may take to end when the device is given up.
constexpr std::int64_t kDrainNs = 5'000'000'000;

/// Initializes PyTorch's part, and makes it the calling thread's current device: events that are
/// made from now on belong to it.
c10::Device opened_device(int index) {
  const int count = c10::cuda::device_count();
  if (index >= count) {
    throw ConfigError({.what = "each rank needs a device of its own",
                       .where = "local rank " + std::to_string(index),
                       .got = std::to_string(count) + " CUDA devices are visible",
                       .expected = "one for each rank of this host",
                       .hint = "fewer ranks, or more devices in CUDA_VISIBLE_DEVICES"});
  }
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const auto device_index = static_cast<c10::DeviceIndex>(index);
  c10::cuda::set_device(device_index);
  return {c10::kCUDA, device_index};
}

NcclState& state_of(c10d::Backend& backend) { return dynamic_cast<NcclState&>(backend); }

}  // namespace

CudaDevice::CudaDevice(int index) : device_(opened_device(index)) {
  // The stream is not of PyTorch's pool: callbacks of collectives take those in turn and make them
  // wait.
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromExternal(stream, device_.index()));
  set_anchor();
}

CudaDevice::~CudaDevice() {
  try {
    Event now;
    now.record(c10::cuda::getCurrentCUDAStream(device_.index()));
    const std::int64_t end_ns = now_ns() + kDrainNs;
    while (!now.done()) {
      if (now_ns() > end_ns) return;  // giving memory back would wait for it
      std::this_thread::sleep_for(kPause);
    }
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception&) {
    // The device has failed, and whoever used it has been told: there is nothing to give back.
  }
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
                 .hint = "ask for times each step"});
  }
  return mark > 0 ? events_[static_cast<std::size_t>(mark % kKeptMarks)]
                  : captured_events_[static_cast<std::size_t>(-mark - 1)];
}

std::int64_t CudaDevice::time_of(Mark mark) {
  const Event& event = event_of(mark);
  const Mark reached = mark > 0 ? mark : launched_;
  wait_for(event_of(reached));
  const std::lock_guard lock(mutex_);
  // CUDA measures distances forward in time only.
  const double ms = reached < anchor_mark_ ? -static_cast<double>(event.ms_to(anchor_))
                                           : static_cast<double>(anchor_.ms_to(event));
  return anchor_ns_ + std::llround(ms * 1e6);
}

void CudaDevice::synchronize() {
  Event now;
  now.record(c10::cuda::getCurrentCUDAStream(device_.index()));
  wait_for(now);
  set_anchor();
}

void CudaDevice::set_anchor() {
  const std::lock_guard lock(mutex_);
  anchor_.record(c10::cuda::getCurrentCUDAStream(device_.index()));
  anchor_.synchronize();
  anchor_ns_ = now_ns();
  anchor_mark_ = next_;
}

void CudaDevice::wait_for(const Event& event) const {
  const std::int64_t begin_ns = now_ns();
  while (!event.done()) {
    const std::int64_t waited_ns = now_ns() - begin_ns;
    if (waited_ns < kAwakeNs) continue;
    std::this_thread::sleep_for(kPause);
    throw_if_failed();
    if (limit_ns_ > 0 && waited_ns > limit_ns_) {
      throw TimeoutError(collective_failed(
          device_, "no end within " + std::to_string(limit_ns_ / 1'000'000'000) + " s"));
    }
  }
  throw_if_failed();  // a collective that was aborted comes to an end as well
}

void CudaDevice::throw_if_failed() const {
  for (const auto& each : backends_) {
    const auto backend = each.lock();
    if (backend) state_of(*backend).check();
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

std::int64_t CudaDevice::used_memory() const {
  std::size_t free = 0, all = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &all));  // of the current device, which is this rank's
  return static_cast<std::int64_t>(all - free);
}

int CudaDevice::compute_capability() const { return cuda::compute_capability(device_.index()); }

std::string CudaDevice::name() const { return gpu_name(device_.index()); }

std::vector<std::pair<std::string, std::string>> CudaDevice::describe() const {
  auto facts = describe_software();
  facts.emplace(facts.begin(), device_.str(), describe_gpu(device_.index()));
  if (const std::string links = describe_links(); !links.empty()) {
    facts.emplace_back("gpu links", links);
  }
  if (const auto backend = of_all_ranks()) {
    facts.emplace_back("nccl buffers", state_of(*backend).buffers());
  }
  return facts;
}

c10::intrusive_ptr<c10d::Backend> CudaDevice::of_all_ranks() const {
  return backends_.empty() ? nullptr : backends_.front().lock();
}

std::string CudaDevice::topology() const {
  const auto backend = of_all_ranks();
  return backend ? state_of(*backend).topology() : std::string();
}

c10::intrusive_ptr<c10d::Backend> CudaDevice::make_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
    std::chrono::milliseconds timeout) {
  auto backend = make_nccl_backend(store, rank, world_size, device_, timeout);
  // A little longer than the backend's own limit, for what the backend does not watch. A single
  // rank waits for nobody, and its computing may take any time.
  if (world_size > 1) limit_ns_ = std::chrono::nanoseconds(timeout).count() + kSlackNs;
  // A group of all ranks comes first; one that is gone belonged to a run before.
  std::erase_if(backends_, [](const auto& each) { return each.expired(); });
  if (backends_.empty() && world_size == 1) limit_ns_ = 0;
  backends_.emplace_back(backend);
  return backend;
}

}  // namespace ddprun::cuda
