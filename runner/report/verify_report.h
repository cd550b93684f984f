// The verdict of `ddprun verify` on what the ranks measured, as JSON and as a table.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runner/report/terminal.h"

namespace ddprun {

struct VerifyBounds {
  /// Relative to the parameter's largest; of a loss, to it where it is above 1. None: what the
  /// ranks found rounding to leave open, of a loss kLoss at most.
  std::optional<double> gradient = {};
  std::optional<double> parameter = {};  ///< absolute, after a step of SGD; none: not bounded
  static constexpr double kLoss = 0.03;
  /// Of an update by equal gradients: four roundings of float32.
  static constexpr double kUpdate = 0x1p-22;
};

/// `found` (Executor::verify()) with `bounds`, `passed` in each step and parameter, `reasons` (a
/// sentence for each kind of failure) and `passed` of all.
nlohmann::json judge(nlohmann::json found, const VerifyBounds& bounds);

/// What judge() returned, for people: a line for each parameter, the reasons, the verdict.
std::string verify_text(const nlohmann::json& judged, const Terminal& terminal);

}  // namespace ddprun
