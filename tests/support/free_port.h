// A TCP port that nobody uses, for launches that are joined, and connections to it.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "ddprun/base/descriptor.h"

namespace ddprun::test {

/// A socket that listens on 127.0.0.1, and its port.
inline std::pair<Descriptor, int> listen_on_free_port() {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener.get(), generic, length), 0);
  EXPECT_EQ(::listen(listener.get(), SOMAXCONN), 0);
  EXPECT_EQ(::getsockname(listener.get(), generic, &length), 0);
  return {std::move(listener), ntohs(address.sin_port)};
}

inline int free_port() { return listen_on_free_port().second; }

/// A connection to what listens there on this host; none if nobody does.
inline Descriptor connection_to(int port, const char* host = "127.0.0.1") {
  Descriptor fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host, &address.sin_addr);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(fd.get(), generic, sizeof address) == 0 ? std::move(fd) : Descriptor();
}

}  // namespace ddprun::test
