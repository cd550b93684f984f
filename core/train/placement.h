// Where a rank runs: its share of the host's cores, and as many threads.
#pragma once

#include <vector>

#include "ddprun/comm/rendezvous.h"
#include "ddprun/config/experiment.h"

namespace ddprun {

struct Placement {
  std::vector<int> cores;
  int threads = 0;
};

/// Takes this rank's share of the host's cores and threads, as `world` asks, and tells malloc to
/// keep what is freed. Before any thread starts, so that all inherit the place.
Placement place(const WorldConfig& world, const RankInfo& info);

}  // namespace ddprun
