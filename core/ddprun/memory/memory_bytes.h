// Bytes of memory by what they are for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "ddprun/memory/memory_category.h"

namespace ddprun {

/// By category. All zero at first.
class MemoryBytes {
 public:
  std::int64_t& operator[](MemoryCategory category) {
    return bytes_[static_cast<std::size_t>(category)];
  }
  std::int64_t operator[](MemoryCategory category) const {
    return bytes_[static_cast<std::size_t>(category)];
  }
  std::int64_t sum() const {
    return std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0});
  }
  friend bool operator==(const MemoryBytes&, const MemoryBytes&) = default;

 private:
  std::array<std::int64_t, kChoiceNames<MemoryCategory>.size()> bytes_ = {};
};

}  // namespace ddprun
