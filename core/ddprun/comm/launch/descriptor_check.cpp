// Counts what is left against what a rank's connections take.
#include "ddprun/comm/launch/descriptor_check.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include "ddprun/base/descriptor.h"
#include "ddprun/base/error.h"
#include "ddprun/comm/launch/rendezvous.h"

namespace ddprun {

void check_descriptors(const RankInfo& info) {
  // A socket to every rank, and on rank 0 one of the store's to every rank; the rest is event
  // loops, the store's own ends and shared memory.
  constexpr int kOfOneself = 10;
  const int needed = kOfOneself + (info.rank == 0 ? 2 : 1) * info.world_size;
  const int left = free_descriptors(needed);
  if (left >= needed) return;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  throw CommError({.what = "too few file descriptors are left to connect this rank",
                   .where = fmt::format("rank {} of {}", info.rank, info.world_size),
                   .got = fmt::format("{} of the {} that it may have", left, limit.rlim_cur),
                   .expected = fmt::format("at least {}", needed),
                   .hint = "`ulimit -n 4096` raises the limit; fewer ranks need fewer"});
}

}  // namespace ddprun
