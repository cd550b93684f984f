// Highway's choice, by its own rule: of the levels compiled and supported, the lowest bit.
#include "ddprun/kernels/simd_level.h"

#include <hwy/highway.h>

namespace ddprun::kernels {

const char* simd_level() {
  const auto usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);
}

}  // namespace ddprun::kernels
