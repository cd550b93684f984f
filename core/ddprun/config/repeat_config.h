// How often something is measured that is not a step of training: the YAML section `repeat:`.
#pragma once

#include <cstdint>

namespace ddprun {

/// Ends after `count` samples or `seconds`, whichever comes first, but not before kLeast samples.
struct RepeatConfig {
  std::int64_t warmup = 3;
  std::int64_t count = 100;
  double seconds = 5;
  static constexpr std::int64_t kLeast = 3;
};

}  // namespace ddprun
