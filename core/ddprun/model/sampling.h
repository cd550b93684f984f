// How tokens are drawn from what a model says.
#pragma once

#include <cstdint>

namespace ddprun {

struct Sampling {
  std::int64_t tokens = 200;
  double temperature = 0.8;  ///< logits are divided by it; 0: the likeliest token
  /// Draws are among the fewest tokens that have this probability together (nucleus sampling,
  /// Holtzman et al. 2020).
  double top_p = 1;
  std::uint64_t seed = 0;  ///< of the draws, which depend on nothing else
};

}  // namespace ddprun
