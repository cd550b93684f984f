// The moments of an optimizer, for the ranges that it updates.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>

#include "ddprun/memory/memory_category.h"
#include "ddprun/memory/private_memory.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// Arrays of BufferDtypes::moments on the parameters' device. They cover only the ranges
/// touched so far, so a rank that updates a part of the parameters pays for that part alone.
class Moments {
 public:
  using Arrays = std::array<at::Tensor, 2>;

  /// `count` arrays, at most two.
  Moments(int count, const FlatBuffers& buffers)
      : count_(count),
        options_(at::TensorOptions(buffers.parameter(0).device()).dtype(buffers.dtypes().moments)) {
  }

  int count() const { return count_; }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& [begin, segment] : segments_) {
      for (int k = 0; k < count_; ++k) sum += static_cast<std::int64_t>(segment.arrays[k].nbytes());
    }
    return sum;
  }

  /// Gives their memory back.
  void drop() { segments_.clear(); }

  /// Calls `visit(part, arrays, from)` for consecutive parts that make up `range`. The part's
  /// elements begin at index `from` of each array.
  template <typename Visit>
  void for_each_part(Range range, const Visit& visit) {
    while (range.begin < range.end) {
      Segment& segment = segment_at(range);
      const Range part{range.begin, std::min(range.end, segment.range.end)};
      visit(part, segment.arrays, part.begin - segment.range.begin);
      range.begin = part.end;
    }
  }

 private:
  struct Segment {
    Range range;
    Arrays arrays;
  };

  /// The segment that holds range.begin. If there is none, a new one, which ends at the next
  /// segment.
  Segment& segment_at(Range range) {
    const auto next = segments_.upper_bound(range.begin);
    if (next != segments_.begin() && std::prev(next)->second.range.end > range.begin) {
      return std::prev(next)->second;
    }
    if (next != segments_.end()) range.end = std::min(range.end, next->first);
    Segment& segment = segments_[range.begin];
    segment.range = range;
    const MemoryScope scope(MemoryCategory::moments);
    for (int k = 0; k < count_; ++k) segment.arrays[k] = allocate_private(range.size(), options_);
    return segment;
  }

  int count_;
  at::TensorOptions options_;
  std::map<std::int64_t, Segment> segments_;  // by begin; disjoint
};

}  // namespace ddprun
