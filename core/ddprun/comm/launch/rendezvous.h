// How ranks find each other: a store that rank 0 or the launcher serves, then the process group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/comm/group/comm_config.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/comm/launch/host_layout.h"

namespace ddprun {

/// RankInfo::launcher of ranks that ddprun started itself, on this host and for one run.
inline constexpr const char* kOwnLauncher = "ddprun";

struct StoreSockets;  // store_server.h

/// A rank's place in the world, and where rank 0's store listens.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_size = 1;  ///< ranks on this host
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  /// Of a launch whose ranks one process forks, instead of an address: this rank's way to the
  /// store. The first connect() takes them.
  std::shared_ptr<StoreSockets> sockets = nullptr;
  /// The launcher (torchrun's agent) serves the store, not rank 0.
  bool agent_store = false;
  /// Who started the ranks: "ddprun", "torchrun", "slurm", "openmpi", "hydra".
  std::string launcher = kOwnLauncher;
  /// What whoever connects to rank 0's store must know; empty: whoever reaches it is trusted.
  std::string secret = {};

  /// "rank 1 of 2, store at 127.0.0.1:29500"
  std::string place() const;
};

/// Connects this rank to all others, on config.backend. `auto` takes shm if all ranks are on this
/// host, and hierarchical if there are several hosts of several ranks each, provided that shared
/// memory can join the ranks of a host. Otherwise it takes gloo. The group says which and why.
///
/// `run_id` keeps apart the keys of runs that share a store: the store of a joined launch stays
/// open until the process ends. `host` is equal on the ranks of one host and different elsewhere.
/// `device` is what the ranks compute on; if it has a backend of its own, the group takes that. It
/// outlives the group.
///
/// Throws CommError naming the address and the ranks that did not come within config.timeout_s.
/// Throws ConfigError if shm or hierarchical is asked for and the ranks' hosts do not allow it.
std::unique_ptr<ProcessGroup> connect(const RankInfo& info, CommConfig config,
                                      const std::string& run_id,
                                      const std::string& host = host_identity(),
                                      Device& device = cpu_device());

/// One decision for all ranks of a launch that was joined, while no group connects them. Each rank
/// calls it with its own text. `decide` is called on the last one that comes, with the texts of all
/// in rank order; its result, which is not empty, is returned on every rank. Throws CommError if a
/// rank does not come within `timeout_s`. `topic` names what is decided, in errors and in the
/// store.
std::string decide_in_launch(
    const RankInfo& info, const std::string& topic, const std::string& text, double timeout_s,
    const std::function<std::string(const std::vector<std::string>&)>& decide);
/// Ends that on all ranks with `decision`, at once, whoever has come. Returns the decision that
/// holds, which is another one's if that came first.
std::string impose_in_launch(const RankInfo& info, const std::string& topic,
                             const std::string& decision, double timeout_s);
/// Waits, `timeout_s` at most, until all have heard it: this process may serve the store and end.
void wait_until_heard(const RankInfo& info, const std::string& topic, double timeout_s);

/// The same for ranks that are threads of one process: each calls it with the same in-process
/// `store` (make_thread_store()). A group of one rank needs no other thread. Of `info`, only ranks
/// and sizes count.
c10::intrusive_ptr<c10d::Store> make_thread_store();
std::unique_ptr<ProcessGroup> connect_thread(c10::intrusive_ptr<c10d::Store> store, int rank,
                                             int world_size, const CommConfig& config,
                                             Device& device = cpu_device());
std::unique_ptr<ProcessGroup> connect_thread(c10::intrusive_ptr<c10d::Store> store,
                                             const RankInfo& info, const CommConfig& config,
                                             const std::string& host,
                                             Device& device = cpu_device());

}  // namespace ddprun
