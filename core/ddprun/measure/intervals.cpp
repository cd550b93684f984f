// Union of intervals by one sweep over their begins.
#include "ddprun/measure/intervals.h"

#include <algorithm>
#include <utility>

namespace ddprun {

std::vector<Interval> union_of(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  std::vector<Interval> out;
  for (const auto& [begin, end] : intervals) {
    if (end <= begin) continue;
    if (!out.empty() && begin <= out.back().end) {
      out.back().end = std::max(out.back().end, end);
    } else {
      out.push_back({begin, end});
    }
  }
  return out;
}

std::vector<Interval> without(std::vector<Interval> intervals, std::vector<Interval> holes) {
  holes = union_of(std::move(holes));
  std::vector<Interval> out;
  for (auto [begin, end] : union_of(std::move(intervals))) {
    for (const Interval& hole : holes) {
      if (hole.end <= begin || hole.begin >= end) continue;
      if (hole.begin > begin) out.push_back({begin, hole.begin});
      begin = hole.end;
    }
    if (begin < end) out.push_back({begin, end});
  }
  return out;
}

std::int64_t union_length(std::vector<Interval> intervals) {
  std::int64_t length = 0;
  for (const auto& [begin, end] : union_of(std::move(intervals))) length += end - begin;
  return length;
}

}  // namespace ddprun
