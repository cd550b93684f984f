// Updates of a tensor's weights that rounding left without effect.
#pragma once

#include <cstdint>
#include <string>

namespace ddprun {

struct LostUpdates {
  std::string parameter = {};
  std::int64_t weights = 0;  ///< its elements
  /// In the last step that was looked at: weights that it had to move, and those that it did not.
  std::int64_t looked_at = 0, lost = 0;
  /// Steps that were looked at and had to move some, and those that moved none.
  std::int64_t steps = 0, steps_without_effect = 0;

  double share() const {
    return looked_at == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(looked_at);
  }
  /// Whether rounding has kept it as it was in each of several steps.
  bool stands_still() const { return steps > 1 && steps_without_effect == steps; }
};

}  // namespace ddprun
