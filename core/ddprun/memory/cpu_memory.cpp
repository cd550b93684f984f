// An allocator before PyTorch's own, which notes who counts what it gives out.
#include "ddprun/memory/cpu_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <unordered_map>
#include <utility>

namespace ddprun {

namespace {

/// Gives out what the allocator behind it does, and knows which blocks somebody counts. Blocks stay
/// plain (their context is their address), as PyTorch's raw_allocate() demands.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t size) override {
    c10::DataPtr block = inner_.allocate(size);
    void* const data = block.get();
    if (data == nullptr) return block;
    if (auto counted =
            counts() ? CpuMemory::count_bytes(static_cast<std::int64_t>(size), data) : nullptr) {
      const std::lock_guard lock(mutex_);
      counted_.emplace(data, std::move(counted));
    }
    block.release_context();
    return {data, data, raw_deleter(), block.device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  /// Between these calls somebody counts. Otherwise a block costs nothing more than without it.
  void begin() { ++counting_; }
  void end() {
    if (--counting_ > 0) return;
    const std::lock_guard lock(mutex_);
    counted_.clear();
  }

  /// The one of the process.
  static CountingAllocator& instance() {
    static auto* const instance = new CountingAllocator(*c10::GetCPUAllocator());
    return *instance;
  }

 private:
  bool counts() const { return counting_.load(std::memory_order_relaxed) > 0; }
  static void free(void* data) {
    if (instance().counts()) instance().forget(data);
    instance().inner_.raw_deleter()(data);
  }
  void forget(void* data) {
    const std::lock_guard lock(mutex_);
    counted_.erase(data);
  }

  c10::Allocator& inner_;
  std::atomic<int> counting_ = 0;
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<void>> counted_;
};

/// Of a thread that counts. The allocator stays for good, since its blocks are anybody's.
class Counting {
 public:
  Counting() {
    static std::once_flag once;
    std::call_once(once, [] {
      c10::SetCPUAllocator(&CountingAllocator::instance(),
                           std::numeric_limits<std::uint8_t>::max());  // the priority
    });
    CountingAllocator::instance().begin();
  }
  ~Counting() { CountingAllocator::instance().end(); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  c10::DebugInfoGuard here_{c10::DebugInfoKind::PROFILER_STATE, std::make_shared<CpuMemory>()};
};

}  // namespace

MemoryListener::~MemoryListener() = default;
MemorySource::~MemorySource() = default;

void CpuMemory::add(std::int64_t bytes, const void* block, bool lent) {
  const std::lock_guard lock(mutex_);
  if (!lent) bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  if (listener_ != nullptr) listener_->on_allocated(block, bytes, lent);
}

void CpuMemory::remove(std::int64_t bytes, const void* block, bool lent) {
  const std::lock_guard lock(mutex_);
  if (!lent) bytes_ -= bytes;
  if (listener_ != nullptr) listener_->on_released(block);
}

void CpuMemory::tell(MemoryListener* listener) {
  const std::lock_guard lock(mutex_);
  listener_ = listener;
}

std::int64_t CpuMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::int64_t CpuMemory::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

void CpuMemory::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_bytes_ = bytes_;
}

std::shared_ptr<void> CpuMemory::count_here() { return std::make_shared<Counting>(); }

std::shared_ptr<void> CpuMemory::count_bytes(std::int64_t bytes, const void* address, bool lent) {
  CpuMemory* const found = here();
  if (found == nullptr) return {};
  found->add(bytes, address, lent);
  return {found, [counts = found->shared_from_this(), bytes, address, lent](void*) {
            counts->remove(bytes, address, lent);
          }};
}

CpuMemory* CpuMemory::here() {
  return dynamic_cast<CpuMemory*>(
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

}  // namespace ddprun
