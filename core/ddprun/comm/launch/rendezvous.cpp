// Connects the ranks: a store that rank 0 or the launcher serves, everyone's presence in it, then
// the backend.
#include "ddprun/comm/launch/rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/base/descriptor.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/comm/launch/backend_choice.h"
#include "ddprun/comm/store/agent_store.h"
#include "ddprun/comm/store/all_gather_object.h"
#include "ddprun/comm/store/launch_board.h"
#include "ddprun/comm/store/store_client.h"

namespace ddprun {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

std::string place_of(const RankInfo& info) {
  const std::string rank = fmt::format("rank {} of {}", info.rank, info.world_size);
  if (info.sockets) return rank;
  return fmt::format("{}, store at {}:{}", rank, info.master_addr, info.master_port);
}

/// Throws CommError if too few file descriptors are left for the sockets and files of a rank's
/// connections. Without this check the shortage shows somewhere within the store or the backend, as
/// a port that is taken or a rank that does not come.
void check_descriptors(const RankInfo& info) {
  // A socket to every rank, and on rank 0 one of the store's to every rank that is not here yet;
  // the rest is event loops, the store's own ends and shared memory.
  constexpr int kOfOneself = 10;
  const bool connects = info.rank == 0 && !info.sockets;
  const int needed = kOfOneself + (connects ? 2 : 1) * info.world_size;
  const int left = free_descriptors(needed);
  if (left >= needed) return;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  throw CommError({.what = "too few file descriptors are left to connect this rank",
                   .where = fmt::format("rank {} of {}", info.rank, info.world_size),
                   .got = fmt::format("{} of the {} that it may have", left, limit.rlim_cur),
                   .expected = fmt::format("at least {}", needed),
                   .hint = "`ulimit -n 4096` raises the limit; fewer ranks need fewer"});
}

/// The address of this host on the way to the master: what the others can reach, and of the network
/// that the user meant.
std::string local_address(const RankInfo& info) {
  if (info.sockets) return "127.0.0.1";  // all ranks are on this host
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(info.master_port);
  const int failed = ::getaddrinfo(info.master_addr.c_str(), port.c_str(), &hints, &found);
  if (failed != 0) {
    throw CommError({.what = "the master's address is unknown on this host",
                     .where = place_of(info),
                     .got = info.master_addr + ": " + ::gai_strerror(failed),
                     .expected = "a host name or an IP address",
                     .hint = "set MASTER_ADDR to an address of rank 0's host"});
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> results(found, &::freeaddrinfo);
  for (const addrinfo* result = found; result != nullptr; result = result->ai_next) {
    // Connecting a datagram socket sends nothing; it asks the kernel which way it would send.
    const Descriptor probe(::socket(result->ai_family, SOCK_DGRAM, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    char text[NI_MAXHOST] = {};
    if (probe.get() >= 0 && ::connect(probe.get(), result->ai_addr, result->ai_addrlen) == 0 &&
        ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      return text;
    }
  }
  throw CommError({.what = "this host has no route to the master",
                   .where = place_of(info),
                   .got = std::strerror(errno),
                   .expected = "a network that reaches " + info.master_addr,
                   .hint = "check MASTER_ADDR"});
}

/// gloo would bind to the loopback interface and the other hosts would wait for it in vain.
void refuse_loopback_between_hosts(const RankInfo& info, const std::string& address) {
  if (info.local_size >= info.world_size) return;
  if (!address.starts_with("127.") && address != "::1") return;
  throw CommError({.what = "the ranks of several hosts cannot meet at a loopback address",
                   .where = place_of(info),
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

/// A socket that listens for the ranks of all hosts.
Descriptor listen_for_ranks(const RankInfo& info) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(info.master_port));
  Descriptor listener = bound_to(reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
  if (listener.get() < 0 && errno != EADDRINUSE) {  // a host without IPv6
    sockaddr_in any4{};
    any4.sin_family = AF_INET;
    any4.sin_port = any6.sin6_port;
    listener = bound_to(reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  }
  if (listener.get() >= 0 && ::listen(listener.get(), SOMAXCONN) == 0) return listener;
  throw CommError({.what = "the store of this run cannot listen",
                   .where = place_of(info),
                   .got = std::strerror(errno),
                   .expected = "port " + std::to_string(info.master_port) + " of this host, free",
                   .hint = "another program may use the port: choose another MASTER_PORT"});
}

/// A connection to the store of the run; on rank 0, unless the launcher serves it, with the server.
StorePtr open_store(const RankInfo& info, std::chrono::milliseconds timeout) {
  StorePlace place = {info.master_addr, info.master_port, place_of(info),
                      info.agent_store ? "the launcher's agent" : "rank 0"};
  if (info.agent_store) check_agent_store(place, timeout, info.rank, ::getppid());
  const bool serves = info.rank == 0 && !info.agent_store;
  if (!serves && !info.sockets) return c10::make_intrusive<StoreClient>(place, timeout);
  StoreSockets own = std::move(info.sockets ? *info.sockets : make_store_sockets(1)[0]);
  place.port = 0;
  return c10::make_intrusive<StoreClient>(
      place, timeout, std::move(own.client),
      serves ? std::make_unique<StoreServer>(std::move(own.served),
                                             info.sockets ? Descriptor() : listen_for_ranks(info))
             : nullptr);
}

/// The store of the run. The runs of a joined launch follow one another at one port, so its store
/// stays open until the process ends: were it opened anew for each run, a rank that is ahead would
/// join the next run in the last one's store, just before rank 0 closes that.
StorePtr store_of(const RankInfo& info, std::chrono::milliseconds timeout) {
  if (info.launcher == kOwnLauncher) return open_store(info, timeout);
  static std::mutex mutex;
  static std::map<std::string, StorePtr> open;
  const std::lock_guard lock(mutex);
  StorePtr& store = open[place_of(info)];
  if (!store) store = open_store(info, timeout);
  return store;
}

std::vector<std::string> keys_of_ranks(const std::string& prefix, int world_size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size; ++rank) keys.push_back(prefix + std::to_string(rank));
  return keys;
}

/// Returns when every rank has come here.
void wait_for_all(c10d::Store& store, const RankInfo& info, std::chrono::milliseconds timeout) {
  const std::vector<std::string> keys = keys_of_ranks("here/", info.world_size);
  store.set(keys[static_cast<std::size_t>(info.rank)], std::string("1"));
  wait_for_ranks(store, keys, timeout, place_of(info));
}

constexpr const char* kDecision = "decision";
constexpr const char* kRead = "read/";

StorePtr topic_store(const RankInfo& info, const std::string& topic,
                     std::chrono::milliseconds timeout) {
  return c10::make_intrusive<c10d::PrefixStore>("ddprun/" + topic, store_of(info, timeout));
}

/// The decision, which is there; confirms that this rank has read it.
std::string read_decision(c10d::Store& store, const RankInfo& info) {
  std::string decision = store.get_to_str(kDecision);
  set_and_flush(store, kRead + std::to_string(info.rank));
  return decision;
}

}  // namespace

std::unique_ptr<ProcessGroup> connect(const RankInfo& info, const CommConfig& config,
                                      const std::string& run_id, const std::string& host,
                                      Device& device) {
  if (info.world_size == 1) {  // needs no rendezvous
    return make_group(make_thread_store(), {0, 1, {host, 0, 1}, "127.0.0.1"}, config, device);
  }
  check_descriptors(info);
  check_backend({host, info.local_rank, info.local_size}, info.world_size, config, device);
  const auto timeout = to_milliseconds(config.timeout_s);
  const std::int64_t begin_ns = now_ns();
  std::string address;
  if (config.interface.empty()) {
    address = local_address(info);
    refuse_loopback_between_hosts(info, address);
  }
  const StorePtr store =
      c10::make_intrusive<c10d::PrefixStore>("ddprun/" + run_id, store_of(info, timeout));
  const auto spent = std::chrono::milliseconds((now_ns() - begin_ns) / 1'000'000);
  wait_for_all(*store, info, std::max(timeout - spent, std::chrono::milliseconds(1)));
  const LaunchBoard::Wait waiting;
  return make_group(store,
                    {info.rank, info.world_size, {host, info.local_rank, info.local_size}, address},
                    config, device);
}

std::string decide_in_launch(
    const RankInfo& info, const std::string& topic, const std::string& text, double timeout_s,
    const std::function<std::string(const std::vector<std::string>&)>& decide) {
  const auto timeout = to_milliseconds(timeout_s);
  const StorePtr store = topic_store(info, topic, timeout);
  const std::vector<std::string> keys = keys_of_ranks("text/", info.world_size);
  post_text(*store, keys[static_cast<std::size_t>(info.rank)], text);
  if (store->add("came", 1) == info.world_size) {
    std::vector<std::string> texts;
    for (const auto& key : keys) texts.push_back(fetch_text(*store, key));
    store->compareSet(kDecision, "", decide(texts));
  }
  try {
    store->wait({kDecision}, timeout);
  } catch (const c10::Error&) {  // the time is over
    wait_for_ranks(*store, keys, to_milliseconds(0), place_of(info) + ", " + topic);
  }
  return read_decision(*store, info);
}

std::string impose_in_launch(const RankInfo& info, const std::string& topic,
                             const std::string& decision, double timeout_s) {
  const StorePtr store = topic_store(info, topic, to_milliseconds(timeout_s));
  store->compareSet(kDecision, "", decision);
  return read_decision(*store, info);
}

void wait_until_heard(const RankInfo& info, const std::string& topic, double timeout_s) {
  const auto timeout = to_milliseconds(timeout_s);
  topic_store(info, topic, timeout)->wait(keys_of_ranks(kRead, info.world_size), timeout);
}

c10::intrusive_ptr<c10d::Store> make_thread_store() {
  return c10::make_intrusive<c10d::HashStore>();
}

std::unique_ptr<ProcessGroup> connect_thread(c10::intrusive_ptr<c10d::Store> store,
                                             const RankInfo& info, const CommConfig& config,
                                             const std::string& host, Device& device) {
  return make_group(
      store, {info.rank, info.world_size, {host, info.local_rank, info.local_size}, "127.0.0.1"},
      config, device);
}

std::unique_ptr<ProcessGroup> connect_thread(c10::intrusive_ptr<c10d::Store> store, int rank,
                                             int world_size, const CommConfig& config,
                                             Device& device) {
  RankInfo info;
  info.rank = info.local_rank = rank;
  info.world_size = info.local_size = world_size;
  return connect_thread(std::move(store), info, config, host_identity(), device);
}

}  // namespace ddprun
