// Which ranks share a host, and whether collectives can go host by host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/error.h"

namespace ddprun {

/// What one rank knows of its place.
struct HostClaim {
  std::string host;    ///< as host_identity() of that rank
  int local_rank = 0;  ///< as the launcher says; so is the next
  int local_size = 1;

  std::string text() const;
  static HostClaim of(const std::string& text);
};

/// A text that is equal for two processes if they run on one host: the same boot of a machine, PID
/// namespace (memory is reached through /proc/PID) and network namespace (a network of its own is a
/// host of its own to every launcher). Empty if the system does not tell.
std::string host_identity();

/// Why ranks at these places, in rank order, cannot reduce within each host first and then between
/// hosts; nothing if they can: there are several hosts, of equally many ranks, more than one each,
/// and rank = host * local_size + local_rank. What launchers say is checked against the hosts' own
/// identities. The same answer on all ranks.
std::optional<ErrorText> refuse_hosts(const std::vector<HostClaim>& ranks);

}  // namespace ddprun
