// Asks the name service for a host.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>

namespace ddprun {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Of `host` and `port`, for sockets of that type (SOCK_STREAM). None if the name is unknown; then
/// `failed` is what gai_strerror() has words for, else 0.
inline Addresses find_addresses(const std::string& host, int port, int socket_type, int& failed) {
  addrinfo hints{};
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {failed == 0 ? found : nullptr, &::freeaddrinfo};
}

}  // namespace ddprun
