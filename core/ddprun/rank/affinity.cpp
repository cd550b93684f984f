// Binds a rank to its cores, sets the number of torch's threads, and keeps freed memory.
#include "ddprun/rank/affinity.h"

#include <ATen/Parallel.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <limits>

#include "ddprun/measure/environment.h"

namespace ddprun {

namespace {

/// Activations of the next step go where the last step's lay: by default glibc maps each large
/// block anew and gives it back, and the kernel clears its pages every time.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace

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

LargeBlocksMapped::LargeBlocksMapped() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}
LargeBlocksMapped::~LargeBlocksMapped() { keep_freed_memory(); }

void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace ddprun
