// From pairs of tokens to what they become: a hash table that is filled once and read often.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/base/counter_hash.h"

namespace ddprun {

struct Merge {
  std::int32_t rank = -1;   ///< the least is merged first; -1: the pair is not merged
  std::int32_t token = -1;  ///< what it becomes
};

class PairMap {
 public:
  /// Replaces what a pair became before.
  void set(std::int32_t left, std::int32_t right, Merge merge) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key_of(left, right))];
    if (slot.key == kEmpty) ++size_;
    slot = {key_of(left, right), merge};
  }
  /// A rank of -1: there is no such pair.
  Merge find(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return {};
    const Slot& slot = slots_[place_of(key_of(left, right))];
    return slot.key == kEmpty ? Merge() : slot.merge;
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge = {};
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  /// Of the key, or of the first empty slot behind its place.
  std::size_t place_of(std::uint64_t key) const {
    std::size_t place = mix_bits(key) & (slots_.size() - 1);
    while (slots_[place].key != kEmpty && slots_[place].key != key) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return place;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) slots_[place_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace ddprun
