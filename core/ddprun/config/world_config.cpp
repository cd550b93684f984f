// The options of the section `world:`.
#include "ddprun/config/world_config.h"

#include "ddprun/base/options.h"

namespace ddprun {

void declare_options(Options& o, WorldConfig& c) {
  o.option("size", &c.size, "number of ranks; a launcher's number replaces it",
           {.min = 1, .max = 4096});
  o.option("device", &c.device, "what each rank computes on; cuda: one GPU a rank");
  o.option("threads_per_rank", &c.threads_per_rank,
           "compute threads; 0: the host's cores divided by its ranks, at least 1",
           {.min = 0, .max = 1024});
  o.option("pin", &c.pin, "each local rank to its share of the cores");
  o.option("emulate_ranks_on_one_gpu", &c.emulate_ranks_on_one_gpu,
           "all ranks share the first GPU, NCCL over sockets: right results, no times (cuda)");
  o.option("memory_limit_gb", &c.memory_limit_gb,
           "of the private memory that a rank takes once it has started, in 1e9 bytes; 0: none "
           "(cpu)",
           {.min = 0, .max = 1e6});
  o.option("memory_check", &c.memory_check,
           "refuse a run whose predicted memory is above what the machine has (cpu)");
  o.option("progress_timeout_s", &c.progress_timeout_s,
           "seconds in which a rank's own work begins or ends nothing (a phase, a call) before the "
           "run ends; at least 20 times the longest such silence so far; 0: no limit",
           {.min = 0, .max = 1e6});
  declare_options(o, c.comm);
}

}  // namespace ddprun
