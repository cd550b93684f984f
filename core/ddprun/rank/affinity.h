// Core affinity: a rank's share of the host's cores, and as many threads.
#pragma once

#include <vector>

#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/config/world_config.h"

namespace ddprun {

/// What a rank computes on.
struct Affinity {
  std::vector<int> cores;
  int threads = 0;
  int host_cores = 0;  ///< that the ranks of this host share
};

/// From now on the cores that this process has are its rank's alone: a launcher gave each rank of
/// this host some. There is nothing to share.
void keep_own_cores();

/// Sets the affinity of this process, and of threads that it starts later, to its share of the
/// usable_cores() that it had at the first call. A quota of CPU time changes no share. The shares
/// of a host's ranks are contiguous, and disjoint if there are enough cores. If there are not, a
/// share is core local_rank % cores. Returns the cores taken. Throws Error if the system refuses.
std::vector<int> pin_to_share(int local_rank, int local_size);

/// Binds this process to its rank's share of the host's cores, sets torch's number of threads, both
/// as `world` asks, and tells malloc to keep what is freed. Call before any thread starts: threads
/// inherit the affinity.
Affinity set_affinity(const WorldConfig& world, const RankInfo& info);

}  // namespace ddprun
