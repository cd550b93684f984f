// Connects the ranks: a store that rank 0 or the launcher serves, everyone's presence in it, then
// the backend.
#include "ddprun/comm/launch/rendezvous.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "ddprun/base/clock.h"
#include "ddprun/base/descriptor.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/comm/launch/backend_choice.h"
#include "ddprun/comm/launch/master_address.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/comm/store/launch_board.h"
#include "ddprun/comm/store/store_client.h"
#include "ddprun/comm/store/store_round.h"

namespace ddprun {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

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

/// A connection to the store of the run; on rank 0, unless the launcher serves it, with the server.
StorePtr open_store(const RankInfo& info, std::chrono::milliseconds timeout) {
  StorePlace place = {info.master_addr, info.master_port, info.place(),
                      info.agent_store ? "the launcher's agent" : "rank 0", info.secret};
  if (info.agent_store) check_agent_store(place, timeout, info.rank, ::getppid());
  const bool serves = info.rank == 0 && !info.agent_store;
  if (!serves && !info.sockets) return c10::make_intrusive<StoreClient>(place, timeout);
  StoreSockets own = std::move(info.sockets ? *info.sockets : make_store_sockets(1)[0]);
  place.port = 0;
  return c10::make_intrusive<StoreClient>(
      place, timeout, std::move(own.client),
      serves ? std::make_unique<StoreServer>(std::move(own.served),
                                             info.sockets ? Descriptor() : listen_for_ranks(info),
                                             info.secret)
             : nullptr);
}

void say_who_is_trusted(const RankInfo& info) {
  spdlog::warn("{}:{} asks nobody for a secret: its network is trusted{}", info.master_addr,
               info.master_port,
               info.agent_store ? ", as torchrun trusts it" : " (DDPRUN_SECRET gives it one)");
}

/// Refuses a rank that another process has already, and another number of ranks, or of hosts, than
/// that of who came first.
void take_seat(c10d::Store& store, const RankInfo& info) {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string own = fmt::format("process {} of host {}", ::getpid(), host);
  const std::string seated =
      store.compareSet(fmt::format("ddprun/seat/{}", info.rank), std::string(), own);
  if (seated != own) {
    throw CommError({.what = "another process has the rank of this one",
                     .where = info.place(),
                     .got = fmt::format("{} is rank {}, and this is {}", seated, info.rank, own),
                     .expected = "a rank for each process",
                     .hint =
                         "the launcher's variables name a rank twice, or another launch meets at "
                         "this port: choose another MASTER_PORT"});
  }
  const bool one_host = info.world_size > 1 && info.local_size == info.world_size;
  const std::string size =
      fmt::format("{}{}", info.world_size, one_host ? ", all on one host," : "");
  const std::string first = store.compareSet("ddprun/size", std::string(), size);
  if (first == size) return;
  throw ConfigError({.what = "the ranks of this launch were told different numbers of ranks",
                     .where = info.place(),
                     .got = fmt::format("{} of this rank; {} of who came first", size, first),
                     .expected = "one number",
                     .hint = "WORLD_SIZE or its like must be the same for every rank, and "
                             "LOCAL_WORLD_SIZE the number of ranks of its host"});
}

/// The store of the run. The runs of a joined launch follow one another at one port, so its store
/// stays open until the process ends: were it opened anew for each run, a rank that is ahead would
/// join the next run in the last one's store, just before rank 0 closes that.
StorePtr store_of(const RankInfo& info, std::chrono::milliseconds timeout) {
  if (info.launcher == kOwnLauncher) return open_store(info, timeout);
  static std::mutex mutex;
  static std::map<std::string, StorePtr> open;
  const std::lock_guard lock(mutex);
  StorePtr& store = open[info.place()];
  if (store) return store;
  if (info.rank == 0 && info.secret.empty() && !info.sockets) say_who_is_trusted(info);
  store = open_store(info, timeout);
  if (!info.agent_store) {
    take_seat(*store, info);
  } else if (const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT")) {
    // An agent numbers its ranks, and its store stays, with all keys, when it starts them again.
    store = c10::make_intrusive<c10d::PrefixStore>(std::string("start ") + restarts, store);
  }
  return store;
}

/// Returns when every rank has come here.
void wait_for_all(c10d::Store& store, const RankInfo& info, std::chrono::milliseconds timeout) {
  StoreRound here(store, "here", info.world_size, info.place());
  here.bring(info.rank);
  here.wait(timeout);
}

constexpr const char* kDecision = "decision";

StorePtr topic_store(const RankInfo& info, const std::string& topic,
                     std::chrono::milliseconds timeout) {
  return c10::make_intrusive<c10d::PrefixStore>("ddprun/" + topic, store_of(info, timeout));
}

/// Of those who have read the decision.
StoreRound round_of_readers(c10d::Store& store, const RankInfo& info) {
  return {store, "read", info.world_size, info.place()};
}

/// The decision, which is there; confirms that this rank has read it.
std::string read_decision(c10d::Store& store, const RankInfo& info) {
  std::string decision = store.get_to_str(kDecision);
  round_of_readers(store, info).bring(info.rank);
  return decision;
}

}  // namespace

std::string RankInfo::place() const {
  const std::string text = fmt::format("rank {} of {}", rank, world_size);
  return sockets ? text : fmt::format("{}, store at {}:{}", text, master_addr, master_port);
}

std::unique_ptr<ProcessGroup> connect(const RankInfo& info, CommConfig config,
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
  const char* const interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (config.interface.empty() && interfaces != nullptr) config.interface = interfaces;
  if (config.interface.empty()) address = local_address(info);
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
  const std::string where = info.place() + ", " + topic;
  StoreRound round(*store, "texts", info.world_size, where);
  if (round.bring(info.rank, text)) store->compareSet(kDecision, "", decide(round.texts()));
  try {
    store->wait({kDecision}, timeout);
  } catch (const c10::Error&) {  // the time is over
    round.check_all_came(timeout);
    throw TimeoutError({.what = "no rank has decided for all",
                        .where = where,
                        .got = fmt::format("no decision within {:g} s", timeout_s),
                        .expected = "the decision of the rank that came last",
                        .hint = "that rank failed or hangs: see the messages of the others"});
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
  try {
    round_of_readers(*topic_store(info, topic, timeout), info).wait(timeout);
  } catch (const std::exception& failure) {
    spdlog::debug("not all ranks heard what was decided: {}", failure.what());
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
