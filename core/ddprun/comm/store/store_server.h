// Serves the store of a run, through which its ranks find each other, on a thread of its own.
#pragma once

#include <memory>
#include <thread>

#include "ddprun/base/descriptor.h"

namespace ddprun {

/// Speaks the protocol of c10d's TCPStore, as far as StoreClient does. c10d's own server asks the
/// name service for the name of each client, one after the other, on the thread that serves all of
/// them; this one asks nobody and waits for nobody. A client that says nothing costs a descriptor.
class StoreServer {
 public:
  /// `listener`: a socket that listens.
  explicit StoreServer(Descriptor listener);
  /// Closes all connections.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  Descriptor stop_;  ///< eventfd
  std::thread thread_;
};

}  // namespace ddprun
