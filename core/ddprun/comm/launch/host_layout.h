// Which ranks share a host, and whether collectives can go host by host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/error.h"

namespace ddprun {

/// What one rank knows of its host and its place there.
struct HostClaim {
  std::string host;    ///< as host_identity() of that rank
  int local_rank = 0;  ///< as the launcher says; so is the next
  int local_size = 1;

  std::string text() const;
  static HostClaim of(const std::string& text);
};

/// A text that is equal for two processes if they run on one host. One host means the same boot of
/// a machine, the same PID namespace (memory is reached through /proc/PID) and the same network
/// namespace (launchers treat a network of its own as a host of its own). Empty if the system does
/// not tell.
std::string host_identity();

/// Returns why ranks at these places, in rank order, cannot reduce first within each host and then
/// between hosts, or nothing if they can. They can if there are several hosts, each with the same
/// number of ranks, which is more than one, and rank = host * local_size + local_rank. What
/// launchers say is checked against the hosts' own identities. The answer is the same on all ranks.
std::optional<ErrorText> refuse_hosts(const std::vector<HostClaim>& ranks);

}  // namespace ddprun
