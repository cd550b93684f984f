// Sets of time intervals: collectives may run side by side, and their time must not count twice.
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< an interval that ends before it begins is empty

  bool operator==(const Interval&) const = default;
};

/// The union of the intervals: in order, none empty, none touching another.
std::vector<Interval> union_of(std::vector<Interval> intervals);

/// What `intervals` cover and `holes` do not, as union_of() has it.
std::vector<Interval> without(std::vector<Interval> intervals, std::vector<Interval> holes);

/// Length of the union of the intervals.
std::int64_t union_length(std::vector<Interval> intervals);

}  // namespace ddprun
