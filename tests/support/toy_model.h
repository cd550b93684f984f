// A transformer that float64 computes in a moment.
#pragma once

#include "ddprun/model/model_config.h"

namespace ddprun::test {

/// Sequences in tests are shorter than its context: positions must not depend on that.
inline ModelConfig toy_model() {
  return {.preset = "toy",
          .vocab_size = 13,
          .context_length = 9,
          .d_model = 8,
          .d_ff = 20,
          .layers = 2,
          .heads = 2,
          .rope_theta = 50.0,
          .norm_eps = 1e-3};
}

}  // namespace ddprun::test
