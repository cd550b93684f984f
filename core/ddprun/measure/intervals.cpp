// Union of intervals by one sweep over their begins.
#include "ddprun/measure/intervals.h"

#include <algorithm>
#include <limits>

namespace ddprun {

std::int64_t union_length(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::int64_t length = 0;
  std::int64_t covered_to = std::numeric_limits<std::int64_t>::min();
  for (const auto& [begin, end] : intervals) {
    if (end <= begin || end <= covered_to) continue;
    length += end - std::max(begin, covered_to);
    covered_to = end;
  }
  return length;
}

}  // namespace ddprun
