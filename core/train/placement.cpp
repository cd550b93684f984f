// Pins a rank to its cores and sets the number of torch's threads.
#include "ddprun/train/placement.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "ddprun/measure/environment.h"

namespace ddprun {

Placement place(const WorldConfig& world, const RankInfo& info) {
  Placement placement;
  const auto host_cores = usable_cores();
  placement.cores = world.pin ? pin_to_share(info.local_rank, info.local_size) : host_cores;
  placement.threads = static_cast<int>(world.threads_per_rank);
  if (placement.threads == 0) {
    placement.threads = std::max(1, static_cast<int>(host_cores.size()) / info.local_size);
  }
  at::set_num_threads(placement.threads);
  return placement;
}

}  // namespace ddprun
