// Where a rank runs: its share of the host's cores, and as many threads.
#pragma once

#include <vector>

#include "ddprun/comm/rendezvous.h"
#include "ddprun/config/world_config.h"

namespace ddprun {

struct Placement {
  std::vector<int> cores;
  int threads = 0;
};

/// Takes this rank's share of the host's cores and threads, as `world` asks, and tells malloc to
/// keep what is freed. Before any thread starts, so that all inherit the place.
Placement place(const WorldConfig& world, const RankInfo& info);

/// Gives the system what is free in the heap, once: after the model was built and checked, before
/// the steps whose memory malloc is to keep.
void give_back_freed_memory();

}  // namespace ddprun
