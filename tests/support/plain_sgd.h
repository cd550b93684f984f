// An optimizer whose update is parameter -= lr * gradient.
#pragma once

#include "ddprun/optim/optimizer_config.h"

namespace ddprun::test {

inline OptimizerConfig plain_sgd() {
  OptimizerConfig config;
  config.name = OptimizerKind::sgd;
  config.weight_decay = 0.0;
  return config;
}

}  // namespace ddprun::test
