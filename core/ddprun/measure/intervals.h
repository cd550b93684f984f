// The length of a union of time intervals: collectives may run side by side, and their time must
// not count twice.
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< an interval that ends before it begins is empty
};

/// Length of the union of the intervals.
std::int64_t union_length(std::vector<Interval> intervals);

}  // namespace ddprun
