// An allocator before PyTorch's own, which notes who counts what it gives out.
#include "ddprun/base/cpu_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ddprun {

namespace {

/// A block that is counted, until its tensor lets it go.
struct CountedBlock {
  c10::DataPtr block;
  std::shared_ptr<void> counted;

  static void free(void* block) { delete static_cast<CountedBlock*>(block); }
};

/// Gives out what the allocator behind it does. Blocks that nobody counts are its own.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t size) override {
    c10::DataPtr block = inner_.allocate(size);
    if (CpuMemory::here() == nullptr || block.get() == nullptr) return block;
    void* const data = block.get();
    const c10::Device device = block.device();
    auto counted = CpuMemory::count_bytes(static_cast<std::int64_t>(size));
    return {data, new CountedBlock{std::move(block), std::move(counted)}, &CountedBlock::free,
            device};
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  c10::Allocator& inner_;
};

/// Once a process, and for good: a block outlives whoever counted it.
void take_allocations() {
  static CountingAllocator* const allocator = [] {
    auto* const made = new CountingAllocator(*c10::GetCPUAllocator());
    c10::SetCPUAllocator(made, std::numeric_limits<std::uint8_t>::max());  // the priority
    return made;
  }();
  static_cast<void>(allocator);
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

std::shared_ptr<void> CpuMemory::count_bytes(std::int64_t bytes) {
  CpuMemory* const counts = here();
  if (counts == nullptr) return {};
  counts->add(bytes);
  return {nullptr, [counts = counts->shared_from_this(), bytes](void*) { counts->add(-bytes); }};
}

CpuMemory* CpuMemory::here() {
  return dynamic_cast<CpuMemory*>(
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE));
}

}  // namespace ddprun
