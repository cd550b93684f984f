// Dtypes of parameters that have no master in float32.
#pragma once

#include "ddprun/optim/buffer_dtypes.h"

namespace ddprun::test {

constexpr BufferDtypes without_masters(at::ScalarType moments = at::kBFloat16) {
  return {.compute = at::kBFloat16,
          .reduce = at::kBFloat16,
          .model = at::kBFloat16,
          .parameters = at::kBFloat16,
          .moments = moments};
}

}  // namespace ddprun::test
