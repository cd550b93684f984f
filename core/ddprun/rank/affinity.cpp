// Binds a rank to its cores, sets the number of torch's threads, and keeps freed memory.
#include "ddprun/rank/affinity.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "ddprun/measure/environment.h"
#include "ddprun/rank/heap.h"

namespace ddprun {

Affinity set_affinity(const WorldConfig& world, const RankInfo& info) {
  keep_freed_memory();
  Affinity affinity;
  const auto host_cores = usable_cores();
  // A later run in this process, of a launch that was joined, finds it pinned.
  static const int unpinned = static_cast<int>(host_cores.size());
  affinity.host_cores = unpinned;
  affinity.cores = world.pin ? pin_to_share(info.local_rank, info.local_size) : host_cores;
  affinity.threads = static_cast<int>(world.threads_per_rank);
  if (affinity.threads == 0) {
    affinity.threads = std::max(1, static_cast<int>(host_cores.size()) / info.local_size);
  }
  at::set_num_threads(affinity.threads);
  return affinity;
}

}  // namespace ddprun
