// Serves the store of a run, through which its ranks find each other, on a thread of its own.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "ddprun/base/descriptor.h"

namespace ddprun {

/// Of one rank of a launch that one process forks, which hands them down: there is no port, and
/// nobody else can connect.
struct StoreSockets {
  Descriptor client;               ///< a connection to the store
  std::vector<Descriptor> served;  ///< on rank 0, which serves the store: the other ends of all
};
/// In rank order. Throws CommError if the system has no descriptor left.
std::vector<StoreSockets> make_store_sockets(int ranks);

/// Speaks the protocol of c10d's TCPStore, as far as StoreClient does. c10d's own server asks the
/// name service for the name of each client, one after the other, on the thread that serves all of
/// them; this one asks nobody and waits for nobody. Requests, values, and all that it keeps have
/// limits (store_protocol.h); who exceeds them loses its connection.
class StoreServer {
 public:
  /// `connected`: connections that are there. `listener`: a socket that listens for more, or none;
  /// who comes by it must know the `secret`, if there is one, before it is served.
  explicit StoreServer(std::vector<Descriptor> connected, Descriptor listener = Descriptor(),
                       std::string secret = {});
  /// Closes all connections.
  ~StoreServer();

 private:
  Descriptor stop_;  ///< eventfd
  std::thread thread_;
};

}  // namespace ddprun
