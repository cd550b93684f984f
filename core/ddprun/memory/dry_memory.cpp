// An allocator of device meta that gives out addresses instead of memory.
#include "ddprun/memory/dry_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <limits>
#include <mutex>
#include <unordered_map>

namespace ddprun {

/// The one of the process. Addresses are never given out twice, so a block that outlives its
/// DryMemory is nobody else's.
class DryMemory::Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    const std::lock_guard lock(mutex_);
    void* const data = reinterpret_cast<void*>(next_);  // NOLINT: nobody reads there
    next_ += (size + kLine) / kLine * kLine;
    if (counts_ != nullptr) {
      const MemoryCategory* const category = MemoryScope::current();
      blocks_[data] = counts_->blocks_.size();
      counts_->blocks_.push_back(
          {.bytes = static_cast<std::int64_t>(size),
           .category = category == nullptr ? std::nullopt : std::optional(*category),
           .made = counts_->changes_.size()});
      counts_->changes_.push_back({blocks_[data], true});
    }
    return {data, data, &free, c10::Device(c10::kMeta)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void*, const void*, std::size_t) const override {}

  void count(DryMemory* counts) {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(counts == nullptr || counts_ == nullptr, "there is a DryMemory already");
    counts_ = counts;
    blocks_.clear();
  }

  static Allocator& instance() {
    static auto* const instance = new Allocator();
    return *instance;
  }

 private:
  static constexpr std::uintptr_t kLine = 64;

  static void free(void* data) { instance().forget(data); }
  void forget(void* data) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(data);
    if (counts_ == nullptr || block == blocks_.end()) return;
    counts_->blocks_[block->second].gone = counts_->changes_.size();
    counts_->changes_.push_back({block->second, false});
    blocks_.erase(block);
  }

  std::mutex mutex_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  DryMemory* counts_ = nullptr;
  std::unordered_map<void*, std::size_t> blocks_;  // those that are there
};

DryMemory::DryMemory() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetAllocator(c10::kMeta, &Allocator::instance(), std::numeric_limits<std::uint8_t>::max());
  });
  Allocator::instance().count(this);
}

DryMemory::~DryMemory() { Allocator::instance().count(nullptr); }

}  // namespace ddprun
