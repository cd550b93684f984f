// Binds a rank to its cores, sets the number of torch's threads, and keeps freed memory.
#include "ddprun/rank/affinity.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "ddprun/base/error.h"
#include "ddprun/measure/environment.h"
#include "ddprun/rank/heap.h"

namespace ddprun {

namespace {

/// Those that the ranks of this host share. A later run in this process, of a launch that was
/// joined, finds it pinned: it shares what the first one did.
const std::vector<int>& host_cores() {
  static const std::vector<int> the_cores = usable_cores();
  return the_cores;
}

bool own_cores = false;

}  // namespace

void keep_own_cores() { own_cores = true; }

std::vector<int> pin_to_share(int local_rank, int local_size) {
  const std::vector<int>& cores = host_cores();
  const int count = static_cast<int>(cores.size());
  std::vector<int> share;
  if (own_cores) {
    share = cores;
  } else if (count < local_size) {
    share = {cores[local_rank % count]};
  } else {
    share.assign(
        cores.begin() + static_cast<std::ptrdiff_t>(count) * local_rank / local_size,
        cores.begin() + static_cast<std::ptrdiff_t>(count) * (local_rank + 1) / local_size);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : share) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return share;
  throw Error({.what = "the system refuses to place the threads of a rank",
               .where = "sched_setaffinity",
               .got = std::generic_category().message(errno),
               .expected = "a system call that succeeds",
               .hint = "set world.pin: false if the system does not let processes choose cores"});
}

Affinity set_affinity(const WorldConfig& world, const RankInfo& info) {
  keep_freed_memory();
  Affinity affinity;
  affinity.host_cores = static_cast<int>(host_cores().size()) * (own_cores ? info.local_size : 1);
  affinity.cores = world.pin ? pin_to_share(info.local_rank, info.local_size) : host_cores();
  affinity.threads = static_cast<int>(world.threads_per_rank);
  if (affinity.threads == 0) {
    const double cores = affinity.host_cores;
    const double at_a_time = std::min(cores, cpu_quota().value_or(cores));
    affinity.threads = std::max(1, static_cast<int>(at_a_time / info.local_size));
  }
  at::set_num_threads(affinity.threads);
  return affinity;
}

}  // namespace ddprun
