// With which row of its sweep a row is compared: the base of its speed-up.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ddprun/config/config_node.h"
#include "ddprun/config/sweep.h"

namespace ddprun {

/// What `report.baseline` is for, in a line.
inline constexpr const char* kBaselineHelp =
    "the rows that speed-ups count from; empty: the last swept key at its first value";

struct Baseline {
  /// Of each point, the index of its base, which may be itself. Empty: nothing is swept, so that
  /// there is nothing to compare with.
  std::vector<std::size_t> of_point = {};
  /// What the bases are: "precision=fp32 of the same model.preset".
  std::string words = {};
};

/// The base of a point is the point with the same values but for the last swept key, which has its
/// first value. `report: {baseline: {precision: fp32}}` names other keys and values instead.
/// `points`: all points of the document's sweep. Throws ConfigError if the document names a key
/// that is not swept, or a value that its sweep does not have.
Baseline find_baseline(const ConfigNode& document, const std::vector<SweptValues>& points);

}  // namespace ddprun
