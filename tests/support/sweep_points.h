// All points of a sweep at once, as tests look at them.
#pragma once

#include <utility>
#include <vector>

#include "ddprun/config/sweep.h"

namespace ddprun::test {

inline std::vector<SweepPoint> points_of(const ConfigNode& document) {
  std::vector<SweepPoint> points;
  for_each_point(document, [&](SweepPoint point) { points.push_back(std::move(point)); });
  return points;
}

}  // namespace ddprun::test
