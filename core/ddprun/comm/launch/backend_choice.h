// Which backend carries the collectives of a group, and why.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/comm/group/comm_config.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/comm/launch/host_layout.h"

namespace ddprun {

/// Where a rank of a group stands, and how it reaches the others.
struct GroupPlace {
  int rank = 0;
  int world_size = 1;
  HostClaim claim;
  std::string address;  ///< of this host, for gloo
  /// Of a subgroup: its ranks' numbers in the run; empty: it is the group of all ranks.
  std::vector<int> members = {};

  /// GroupOrigin::place
  std::string group() const;
  std::string text() const {
    return group() + "rank " + std::to_string(rank) + " of " + std::to_string(world_size);
  }
};

/// Throws ConfigError if config.backend does not fit what this rank knows by itself: its device,
/// and how many ranks are on its host. All ranks of a launch refuse the same, so it takes no
/// communication, and nobody waits for a rank that has refused.
void check_backend(const HostClaim& claim, int world_size, const CommConfig& config,
                   const Device& device);

/// Makes the group on config.backend, by the rules of connect() (rendezvous.h). All ranks call it
/// and choose the same backend. `store` must be used by this group alone. `device` outlives the
/// group.
std::unique_ptr<ProcessGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                         const GroupPlace& place, const CommConfig& config,
                                         Device& device);

}  // namespace ddprun
