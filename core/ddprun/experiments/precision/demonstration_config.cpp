// The options of the section `demonstration:`.
#include "ddprun/experiments/precision/demonstrations.h"

#include "ddprun/base/options.h"

namespace ddprun {

void declare_options(Options& o, DemonstrationConfig& c) {
  o.option("name", &c.name,
           "accumulation: one number added many times; dtypes: the dtypes of a small model's "
           "tensors under autocast");
  o.option("sum", &c.sum,
           "of accumulation: the types of addends and sum; converted: each addend is converted to "
           "the sum's type before it is added");
  o.option("addend", &c.addend, "of accumulation: the number that is added",
           {.min = -1000, .max = 1000});
  o.option("count", &c.count, "of accumulation: how often it is added", {.min = 1, .max = 1e7});
  o.option("autocast", &c.autocast, "of dtypes: what autocast casts to");
}

}  // namespace ddprun
