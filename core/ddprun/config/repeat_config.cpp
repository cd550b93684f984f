// The options of the section `repeat:`.
#include "ddprun/config/repeat_config.h"

#include "ddprun/base/options.h"

namespace ddprun {

void declare_options(Options& o, RepeatConfig& c) {
  o.option("warmup", &c.warmup, "samples taken and recorded before measuring",
           {.min = 0, .max = 1e6});
  o.option("count", &c.count, "measured samples, unless `seconds` end them earlier",
           {.min = RepeatConfig::kLeast, .max = 1e6});
  o.option("seconds", &c.seconds, "after which measuring ends, once there are 3 samples",
           {.min = 0, .max = 86400});
}

}  // namespace ddprun
