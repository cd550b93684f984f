// Whether the store that torchrun's agent serves speaks the protocol that ddprun speaks.
#pragma once

#include "ddprun/comm/store/store_client.h"

namespace ddprun {

/// Asks the store at `place` everything that StoreClient asks, over a connection of its own, and
/// compares the answers. Throws CommError that names both versions of PyTorch where one differs.
/// `rank` keeps apart the ranks that ask at once; `agent` is the process that serves the store, if
/// it is on this host.
void check_agent_store(const StorePlace& place, std::chrono::milliseconds timeout, int rank,
                       int agent);

}  // namespace ddprun
