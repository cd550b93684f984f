// Core affinity: a rank's share of the host's cores, and as many threads.
#pragma once

#include <vector>

#include "ddprun/comm/rendezvous.h"
#include "ddprun/config/world_config.h"

namespace ddprun {

/// What a rank computes on.
struct Affinity {
  std::vector<int> cores;
  int threads = 0;
  int host_cores = 0;  ///< that the ranks of this host share
};

/// Binds this process to its rank's share of the host's cores, sets torch's number of threads, both
/// as `world` asks, and tells malloc to keep what is freed. Call before any thread starts: threads
/// inherit the affinity.
Affinity set_affinity(const WorldConfig& world, const RankInfo& info);

/// As long as this object lives, malloc maps large blocks for themselves and gives them back when
/// they are freed. For building a model: the memory of its first parameters would leave holes in
/// the heap as large as itself, among which the steps' blocks then spread. Afterwards malloc keeps
/// what is freed.
class LargeBlocksMapped {
 public:
  LargeBlocksMapped();
  ~LargeBlocksMapped();
  LargeBlocksMapped(const LargeBlocksMapped&) = delete;
  LargeBlocksMapped& operator=(const LargeBlocksMapped&) = delete;
};

/// Gives the system what is free in the heap. Called once: after the model was built and checked,
/// and before the steps whose memory malloc is to keep.
void give_back_freed_memory();

}  // namespace ddprun
