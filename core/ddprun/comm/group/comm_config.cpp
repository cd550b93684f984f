// The options of the process group.
#include "ddprun/comm/group/comm_config.h"

#include "ddprun/base/options.h"

namespace ddprun {

void declare_options(Options& o, CommConfig& c) {
  o.option("backend", &c.backend,
           "what carries the collectives; auto: nccl on GPUs, shm if all ranks are on one host, "
           "hierarchical if several hosts have several ranks each, else gloo");
  o.option("gloo_threads", &c.gloo_threads, "collectives that gloo runs at a time",
           {.min = 1, .max = 64});
  o.option(
      "interface", &c.interface,
      "network interface, or several: \"eth0,eth1\"; empty: those of GLOO_SOCKET_IFNAME, or the "
      "one of the master's address");
  o.option("timeout_s", &c.timeout_s, "seconds for the rendezvous and for every collective",
           {.min = 0.1, .max = 86400});
}

}  // namespace ddprun
