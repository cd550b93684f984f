// Connects the ranks: a store that rank 0 or the launcher serves, everyone's presence in it, then
// the backend.
#include "ddprun/comm/rendezvous.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/base/descriptor.h"
#include "ddprun/base/failure.h"
#include "ddprun/comm/all_gather_object.h"
#include "ddprun/comm/backend_choice.h"
#include "ddprun/comm/descriptor_check.h"
#include "ddprun/comm/gloo_backend.h"
#include "ddprun/comm/recording_backend.h"

namespace ddprun {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

std::string place_of(const RankInfo& info) {
  return "rank " + std::to_string(info.rank) + " of " + std::to_string(info.world_size) +
         ", store at " + info.master_addr + ":" + std::to_string(info.master_port);
}

/// Silences torch's log while it lives, unless the user chose a level: what goes wrong is in our
/// exceptions, and torch would print each failed attempt with a stack trace.
class QuietLog {
 public:
  QuietLog() : level_(FLAGS_caffe2_log_level) {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
  ~QuietLog() { FLAGS_caffe2_log_level = level_; }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  int level_;
};

/// The address of this host on the way to the master: what the others can reach, and of the network
/// that the user meant.
std::string local_address(const RankInfo& info) {
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

StorePtr open_store(const RankInfo& info, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(info.master_port);
  options.isServer = info.rank == 0 && !info.agent_store;
  options.waitWorkers = false;  // wait_for_all says who is missing, this could not
  options.timeout = timeout;
  if (options.isServer && info.listen_fd >= 0) options.masterListenFd = info.listen_fd;
  try {
    return c10::make_intrusive<c10d::TCPStore>(info.master_addr, options);
  } catch (const std::exception& failure) {
    const std::string port = "port " + std::to_string(info.master_port);
    if (options.isServer) {
      throw comm_error(failure,
                       {.what = "the store of this run cannot listen",
                        .where = place_of(info),
                        .expected = port + " of this host, free",
                        .hint = "another program may use the port: choose another MASTER_PORT"});
    }
    throw comm_error(failure, {.what = "the store of this run cannot be reached",
                               .where = place_of(info),
                               .expected = "a store at " + info.master_addr + ", " + port,
                               .hint = "rank 0 serves it: is it running, and are MASTER_ADDR and "
                                       "MASTER_PORT its own?"});
  }
}

/// The store that the run's ranks meet in. The runs of a joined launch follow one another at one
/// port, so its store stays open until the process ends: were it opened anew for each run, a rank
/// that is ahead would meet the next run in the last one's store, just before rank 0 closes that.
StorePtr store_of(const RankInfo& info, std::chrono::milliseconds timeout) {
  if (info.launcher == kOwnLauncher) return open_store(info, timeout);
  static std::mutex mutex;
  static std::map<std::string, StorePtr> open;
  const std::lock_guard lock(mutex);
  StorePtr& store = open[place_of(info)];
  if (!store) store = open_store(info, timeout);
  return store;
}

/// Returns when every rank has come here. `limit_s` is what the user allowed in all, `timeout` what
/// is left of it.
void wait_for_all(c10d::Store& store, const RankInfo& info, std::chrono::milliseconds timeout,
                  double limit_s) {
  const auto key = [](int rank) { return "here/" + std::to_string(rank); };
  std::vector<std::string> keys;
  for (int rank = 0; rank < info.world_size; ++rank) keys.push_back(key(rank));
  std::string cause;
  try {
    store.set(key(info.rank), std::string("1"));
    store.wait(keys, timeout);
    return;
  } catch (const std::exception& failure) {
    cause = first_line_of(failure);
  }
  std::vector<int> missing;
  try {
    for (int rank = 0; rank < info.world_size; ++rank) {
      if (!store.check({key(rank)})) missing.push_back(rank);
    }
  } catch (const std::exception&) {
    missing.clear();  // the store is gone: nobody can say who came
  }
  if (missing.empty()) {
    throw CommError({.what = "the store of this run was lost while the ranks met",
                     .where = place_of(info),
                     .got = cause,
                     .expected = "the store of rank 0, until all ranks have met",
                     .hint = "rank 0 ended; its own message says why"});
  }
  throw CommError(
      {.what = "not all ranks came",
       .where = place_of(info),
       .got =
           fmt::format("{} of {} within {:g} s; missing: rank {}", info.world_size - missing.size(),
                       info.world_size, limit_s, fmt::join(missing, ", ")),
       .expected = "all of them",
       .hint = "see the messages of those ranks; `timeout_s` under `world:` is the limit"});
}

}  // namespace

std::pair<int, int> listen_on_free_port() {
  const auto fail = [] {
    if (errno == EMFILE || errno == ENFILE) {
      throw CommError({.what = "no file descriptor is left for the store of a run",
                       .where = "127.0.0.1",
                       .got = std::strerror(errno),
                       .expected = "a socket more",
                       .hint = "`ulimit -n 4096` raises the limit"});
    }
    throw CommError({.what = "no port to listen on",
                     .where = "127.0.0.1",
                     .got = std::strerror(errno),
                     .expected = "a free TCP port on the loopback interface",
                     .hint = "`ip address show lo` says whether it is up"});
  };
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener.get() < 0 || ::bind(listener.get(), generic, length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), generic, &length) != 0) {
    fail();
  }
  return {listener.take(), ntohs(address.sin_port)};
}

std::unique_ptr<ProcessGroup> connect(const RankInfo& info, const CommConfig& config,
                                      const std::string& run_id, const std::string& host,
                                      Device& device) {
  if (info.world_size == 1) {  // nobody to meet
    return make_group(make_thread_store(), {0, 1, {host, 0, 1}, "127.0.0.1"}, config, device);
  }
  check_descriptors(info);
  const QuietLog quiet;
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
  wait_for_all(*store, info, std::max(timeout - spent, std::chrono::milliseconds(1)),
               config.timeout_s);
  return make_group(store,
                    {info.rank, info.world_size, {host, info.local_rank, info.local_size}, address},
                    config, device);
}

std::vector<std::string> all_gather_object_in_launch(const RankInfo& info, const std::string& round,
                                                     const std::string& text, double timeout_s) {
  const QuietLog quiet;
  const auto timeout = to_milliseconds(timeout_s);
  try {
    const StorePtr store =
        c10::make_intrusive<c10d::PrefixStore>("ddprun/between", store_of(info, timeout));
    return all_gather_object(*store, round, info.rank, info.world_size, text, timeout);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& failure) {
    throw comm_error(failure, {.what = "the ranks could not tell one another how a run ended",
                               .where = place_of(info),
                               .expected = "a word of every rank of the launch"});
  }
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
