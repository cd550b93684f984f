// An allocator before PyTorch's own, which notes who counts what it gives out.
#include "ddprun/base/cpu_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
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
    if (auto counted = CpuMemory::count_bytes(static_cast<std::int64_t>(size))) {
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

  /// The one of the process.
  static CountingAllocator& instance() {
    static auto* const instance = new CountingAllocator(*c10::GetCPUAllocator());
    return *instance;
  }

 private:
  static void free(void* data) {
    instance().forget(data);
    instance().inner_.raw_deleter()(data);
  }
  void forget(void* data) {
    const std::lock_guard lock(mutex_);
    counted_.erase(data);
  }

  c10::Allocator& inner_;
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<CpuMemory::Counted>> counted_;
};

/// Once a process, and for good: a block outlives whoever counted it.
void take_allocations() {
  static const bool taken = [] {
    c10::SetCPUAllocator(&CountingAllocator::instance(),
                         std::numeric_limits<std::uint8_t>::max());  // the priority
    return true;
  }();
  static_cast<void>(taken);
}

}  // namespace

void CpuMemory::add(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
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

std::shared_ptr<void> CpuMemory::count_here() {
  take_allocations();
  return std::make_shared<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE,
                                               std::make_shared<CpuMemory>());
}

CpuMemory::Counted::~Counted() { counts->add(-bytes); }

std::shared_ptr<CpuMemory::Counted> CpuMemory::count_bytes(std::int64_t bytes) {
  CpuMemory* const counts = here();
  if (counts == nullptr) return {};
  counts->add(bytes);
  return std::make_shared<Counted>(counts->shared_from_this(), bytes);
}

CpuMemory* CpuMemory::here() {
  return dynamic_cast<CpuMemory*>(
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

}  // namespace ddprun
