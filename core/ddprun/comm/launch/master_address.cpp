// Asks the name service for MASTER_ADDR, and the kernel for the way there.
#include "ddprun/comm/launch/master_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "ddprun/base/error.h"
#include "ddprun/comm/store/addresses.h"

namespace ddprun {

namespace {

/// Numbers; empty if there are none.
std::string text_of(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

bool is_useless_loopback(const RankInfo& info, const std::string& address) {
  return info.local_size < info.world_size && (address.starts_with("127.") || address == "::1");
}

/// gloo would bind to the loopback interface and the other hosts would wait for it in vain.
void refuse_loopback_between_hosts(const RankInfo& info, const std::string& address) {
  if (!is_useless_loopback(info, address)) return;
  throw CommError({.what = "the ranks of several hosts cannot meet at a loopback address",
                   .where = info.place(),
                   .got = "this host reaches the master at " + address,
                   .expected = "an address that the other hosts can reach",
                   .hint = "set `interface` under `world:`, or MASTER_ADDR to the master's address "
                           "on the network"});
}

/// A socket bound to this address, or none; then errno says why.
Descriptor bound_to(const sockaddr* address, socklen_t length) {
  const int yes = 1;
  const int no = 0;
  Descriptor fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return fd;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address->sa_family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);  // IPv4 as well
  }
  return ::bind(fd.get(), address, length) == 0 ? std::move(fd) : Descriptor();
}

Descriptor bound_to_all(int port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  Descriptor bound = bound_to(reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
  if (bound.get() >= 0 || errno == EADDRINUSE) return bound;
  sockaddr_in any4{};  // a host without IPv6
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  return bound_to(reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
}

/// A socket bound as listen_for_ranks() says, or none; then errno says why.
Descriptor bound_to_master(const RankInfo& info) {
  int failed = 0;
  const Addresses found = find_addresses(info.master_addr, info.master_port, SOCK_STREAM, failed);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    if (is_useless_loopback(info, text_of(each->ai_addr, each->ai_addrlen))) continue;
    Descriptor bound = bound_to(each->ai_addr, each->ai_addrlen);
    if (bound.get() >= 0 || errno == EADDRINUSE || errno == EACCES) return bound;
  }
  return bound_to_all(info.master_port);
}

}  // namespace

std::string local_address(const RankInfo& info) {
  if (info.sockets) return "127.0.0.1";  // all ranks are on this host
  int failed = 0;
  const Addresses found = find_addresses(info.master_addr, info.master_port, SOCK_DGRAM, failed);
  if (failed != 0) {
    throw CommError({.what = "the master's address is unknown on this host",
                     .where = info.place(),
                     .got = info.master_addr + ": " + ::gai_strerror(failed),
                     .expected = "a host name or an IP address",
                     .hint = "set MASTER_ADDR to an address of rank 0's host"});
  }
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    // Connecting a datagram socket sends nothing; it asks the kernel which way it would send.
    const Descriptor probe(::socket(each->ai_family, SOCK_DGRAM, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    auto* generic = reinterpret_cast<sockaddr*>(&own);
    if (probe.get() < 0 || ::connect(probe.get(), each->ai_addr, each->ai_addrlen) != 0 ||
        ::getsockname(probe.get(), generic, &length) != 0) {
      continue;
    }
    if (const std::string address = text_of(generic, length); !address.empty()) {
      refuse_loopback_between_hosts(info, address);
      return address;
    }
  }
  throw CommError({.what = "this host has no route to the master",
                   .where = info.place(),
                   .got = std::strerror(errno),
                   .expected = "a network that reaches " + info.master_addr,
                   .hint = "check MASTER_ADDR"});
}

Descriptor listen_for_ranks(const RankInfo& info) {
  Descriptor listener = bound_to_master(info);
  if (listener.get() >= 0 && ::listen(listener.get(), SOMAXCONN) == 0) return listener;
  throw CommError({.what = "the store of this run cannot listen",
                   .where = info.place(),
                   .got = std::strerror(errno),
                   .expected = "port " + std::to_string(info.master_port) + " of this host, free",
                   .hint = "another program may use the port: choose another MASTER_PORT"});
}

}  // namespace ddprun
