// Memory at addresses that the host cannot read, and what PyTorch asks of a device beside
// operators.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "far_device/far_device.h"
#include "far_device/far_streams.h"

namespace ddprun::test {

namespace {

/// No processor reads such an address.
constexpr std::uintptr_t kFarBit = std::uintptr_t{1} << 62;
constexpr int kNaNByte = 0xFF;

void* far_of(void* near) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(near) | kFarBit);
}
void* near_of(const void* far) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(far) & ~kFarBit);
}

/// A block that is released is given back to the host late, so that who reads it reads NaN.
class FarMemory final : public c10::Allocator {
 public:
  static FarMemory& instance() {
    static auto& memory = *new FarMemory;
    return memory;
  }
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, far_device};
    const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* const far = far_of(take(size));
    far_allocated(far, size);
    report(far, static_cast<std::int64_t>(size));
    return {far, far, &release, far_device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(near_of(to), near_of(from), bytes);
  }
  std::map<void*, std::size_t> live() {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  FarBytes bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    bytes_.peak = bytes_.now;
  }

 private:
  static constexpr std::size_t kAlignment = 512;  // as CUDA's
  static constexpr std::int64_t kCapacity = std::int64_t{2} << 30;
  static constexpr std::size_t kKept = std::size_t{256} << 20;  // of what was released

  static double in_gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

  void* take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto more = static_cast<std::int64_t>(size);
    if (bytes_.now + more > kCapacity) {
      C10_THROW_ERROR(
          OutOfMemoryError,
          fmt::format("CUDA out of memory. Tried to allocate {:.2f} GiB. GPU {} has a "
                      "total capacity of 2.00 GiB of which {:.2f} GiB is free.",
                      in_gib(more), far_device.index(), in_gib(kCapacity - bytes_.now)));
    }
    void* const near = std::aligned_alloc(kAlignment, size);
    std::memset(near, kNaNByte, size);
    live_[near] = size;
    bytes_.now += more;
    bytes_.peak = std::max(bytes_.peak, bytes_.now);
    bytes_.most = std::max(bytes_.most, bytes_.now);
    return near;
  }

  static void release(void* far) {
    FarMemory& memory = instance();
    far_released(far);
    const std::int64_t size = memory.keep_released(near_of(far));
    if (size > 0) memory.report(far, -size);
  }

  std::int64_t keep_released(void* near) {
    const std::lock_guard lock(mutex_);
    const auto block = live_.find(near);
    if (block == live_.end()) return 0;
    const std::size_t size = block->second;
    std::memset(near, kNaNByte, size);
    bytes_.now -= static_cast<std::int64_t>(size);
    released_.emplace_back(*block);
    released_bytes_ += size;
    live_.erase(block);
    while (released_bytes_ > kKept) {
      std::free(released_.front().first);
      released_bytes_ -= released_.front().second;
      released_.pop_front();
    }
    return static_cast<std::int64_t>(size);
  }

  void report(void* far, std::int64_t change) {
    const auto now = static_cast<std::size_t>(bytes().now);
    c10::reportMemoryUsageToProfiler(far, change, now, now, far_device);
  }

  std::mutex mutex_;
  FarBytes bytes_;
  std::map<void*, std::size_t> live_;  // by where the CPU finds it
  std::deque<std::pair<void*, std::size_t>> released_;
  std::size_t released_bytes_ = 0;
};

class PageLocked final : public at::HostAllocator {
 public:
  static PageLocked& instance() {
    static auto& memory = *new PageLocked;
    return memory;
  }
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const memory = std::malloc(bytes + 1);
    const std::lock_guard lock(mutex_);
    blocks_.insert(memory);
    return {memory, memory, &release, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool contains(const void* memory) {
    const std::lock_guard lock(mutex_);
    return blocks_.contains(const_cast<void*>(memory));
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

 private:
  static void release(void* memory) {
    const std::lock_guard lock(instance().mutex_);
    instance().blocks_.erase(memory);
    std::free(memory);
  }
  std::mutex mutex_;
  std::set<void*> blocks_;  // where each begins
};

/// A thread begins with the first device, whichever the rank has.
thread_local c10::Device current(c10::kCUDA, 0);

/// Devices whose work is done when the call returns; what it has to wait for is checked all the
/// same.
struct FarGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return std::exchange(current, device);
  }
  c10::Device getDevice() const override { return current; }
  void setDevice(c10::Device device) const override { current = device; }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device; }
  static c10::Stream numbered(int stream) {
    return c10::Stream(c10::Stream::UNSAFE, far_device, stream);
  }
  c10::Stream getStream(c10::Device) const override { return numbered(far_stream()); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return numbered(next_far_stream());
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return numbered(set_far_stream(static_cast<int>(stream.id())));
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(far_devices());
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex index,
              c10::EventFlag) const override {
    destroyEvent(*event, index);
    *event = new FarEvent(far_event(static_cast<int>(stream.id())));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<FarEvent*>(event);
  }
  void block(void* event, const c10::Stream& stream) const override {
    far_wait(static_cast<int>(stream.id()), *static_cast<FarEvent*>(event));
  }
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void synchronizeStream(const c10::Stream& stream) const override {
    host_waits_for(static_cast<int>(stream.id()));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    release_waits_for(memory.get(), static_cast<int>(stream.id()));
  }
};

struct FarHooks final : at::CUDAHooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void* memory) const override {
    return PageLocked::instance().contains(memory);
  }
  c10::DeviceIndex current_device() const override { return current.index(); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &PageLocked::instance(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static auto& generator = *new at::Generator(at::detail::createCPUGenerator());
    return generator;
  }
};

std::map<void*, std::vector<char>> before_capture;

[[maybe_unused]] const bool kRegistered = [] {
  c10::SetAllocator(c10::kCUDA, &FarMemory::instance(), 1);
  at::setHostAllocator(c10::kCUDA, &PageLocked::instance(), 1);
  at::CUDAHooksRegistry()->Register(
      "CUDAHooks", [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> {
        return std::make_unique<FarHooks>();
      });
  c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::kCUDA)] = new FarGuard;
  return true;
}();

}  // namespace

int far_devices() {
  static const char* const set = std::getenv("DDPRUN_FAR_DEVICES");
  return set == nullptr ? 2 : std::atoi(set);
}

c10::Device far_device(c10::kCUDA, 0);

void require_far_device(c10::Device device) {
  const c10::Device meant = device.has_index() ? device : current;
  TORCH_CHECK(meant == far_device, "this rank has ", far_device, ", and was asked for ", meant);
}

FarBytes far_bytes() { return FarMemory::instance().bytes(); }
void reset_far_peak() { FarMemory::instance().reset_peak(); }

at::Tensor far_tensor(c10::Storage memory, const at::Tensor& like, at::IntArrayRef sizes,
                      at::IntArrayRef strides, std::int64_t offset) {
  const c10::DispatchKeySet keys =
      like.is_cuda() ? like.key_set() : c10::DispatchKeySet(c10::DispatchKey::CUDA);
  at::Tensor out =
      like.is_cuda()
          ? at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, std::move(memory), keys,
                                                     like.dtype())
          : at::detail::make_tensor<c10::TensorImpl>(std::move(memory), keys, like.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  out._set_conj(like.is_conj());
  out._set_neg(like.is_neg());
  return out;
}

c10::Storage far_storage(std::size_t bytes) {
  FarMemory& memory = FarMemory::instance();
  return {c10::Storage::use_byte_size_t(), bytes, memory.allocate(bytes), &memory, true};
}

c10::Storage far_copy(const c10::Storage& of_host) {
  c10::Storage copy = far_storage(of_host.nbytes());
  if (copy.nbytes() > 0) std::memcpy(near_of(copy.data()), of_host.data(), copy.nbytes());
  return copy;
}

at::Tensor near_alias(const at::Tensor& far) {
  const c10::Storage& memory = far.storage();
  c10::Storage same(c10::Storage::use_byte_size_t(), memory.nbytes(),
                    c10::DataPtr(near_of(memory.data()), c10::kCPU), c10::GetAllocator(c10::kCPU),
                    true);
  at::Tensor out = at::detail::make_tensor<c10::TensorImpl>(
      std::move(same), c10::DispatchKeySet(c10::DispatchKey::CPU), far.dtype());
  c10::TensorImpl* const impl = out.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(far.sizes(), far.strides(), far.storage_offset());
  if (far.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  out._set_conj(far.is_conj());
  out._set_neg(far.is_neg());
  return out;
}

bool lies_at(const c10::Storage& far, const c10::Storage& near) {
  return near_of(far.data()) == near.data();
}

at::Tensor as_captured(const at::Tensor& far) {
  if (!far.defined() || !far.is_cuda()) return far;
  const c10::Storage& memory = far.storage();
  if (!before_capture.contains(near_of(memory.data()))) return far;
  c10::Storage same(c10::Storage::use_byte_size_t(), memory.nbytes(),
                    c10::DataPtr(memory.mutable_data(), far_device), &FarMemory::instance(), false);
  return far_tensor(std::move(same), far, far.sizes(), far.strides(), far.storage_offset());
}

FarMemoryBefore::FarMemoryBefore() {
  for (const auto& [block, bytes] : FarMemory::instance().live()) {
    const char* const begin = static_cast<const char*>(block);
    before_capture[block].assign(begin, begin + bytes);
  }
}

FarMemoryBefore::~FarMemoryBefore() {
  for (const auto& [block, bytes] : FarMemory::instance().live()) {
    const auto before = before_capture.find(block);
    if (before == before_capture.end()) {
      std::memset(block, kNaNByte, bytes);
    } else {
      std::memcpy(block, before->second.data(), bytes);
    }
  }
  before_capture.clear();
}

}  // namespace ddprun::test
