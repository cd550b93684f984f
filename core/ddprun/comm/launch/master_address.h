// Where the ranks of a joined launch meet: MASTER_ADDR, as this host sees it.
#pragma once

#include <string>

#include "ddprun/base/descriptor.h"
#include "ddprun/comm/launch/rendezvous.h"

namespace ddprun {

/// The address of this host on the way to the master: what the others can reach, and of the network
/// that the user meant. Throws CommError.
std::string local_address(const RankInfo& info);

/// A socket that listens for the ranks of all hosts, at MASTER_ADDR's address alone; at all
/// addresses where that one does not do: it is unknown yet, or none of this host (a service of
/// Kubernetes), or a loopback address though there are other hosts (Debian's /etc/hosts has one for
/// a host's own name). Throws CommError.
Descriptor listen_for_ranks(const RankInfo& info);

}  // namespace ddprun
