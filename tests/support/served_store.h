// A store of a launch, served on a free port of this host.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/comm/store/store_server.h"
#include "support/free_port.h"

namespace ddprun::test {

struct Served {
  explicit Served(const std::string& secret = {}) {
    auto [listener, free_port] = listen_on_free_port();
    port = free_port;
    server = std::make_unique<StoreServer>(std::vector<Descriptor>(), std::move(listener), secret);
  }
  int port = 0;
  std::unique_ptr<StoreServer> server;
};

}  // namespace ddprun::test
