// fp32: every stage in float32; the defaults of Precision are exactly that.
#include "ddprun/plugin/precision.h"

namespace {

class Fp32 final : public ddprun::Precision {};

}  // namespace

DDPRUN_PRECISION(Fp32, "fp32", "every stage in float32", "1.0")
