// The options of the process group: which backend joins the ranks, and how long a rank waits for
// another.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ddprun {

class Options;

/// `world.backend`: what carries the collectives. `automatic` is written "auto".
enum class BackendKind { automatic, gloo, shm, hierarchical, mpi, nccl };
constexpr auto choice_names(BackendKind) {
  return std::array{"auto", "gloo", "shm", "hierarchical", "mpi", "nccl"};
}

struct CommConfig {
  BackendKind backend = BackendKind::automatic;
  std::int64_t gloo_threads = 2;  ///< collectives that gloo runs at a time
  /// The network interfaces of gloo, with commas between. If it is empty, gloo takes those of
  /// GLOO_SOCKET_IFNAME, or the one on the way to the master.
  std::string interface = "";
  double timeout_s = 60.0;  ///< of the rendezvous and of every collective
};

/// Declares these options. They stand directly under `world:`, beside those of WorldConfig.
void declare_options(Options& options, CommConfig& config);

}  // namespace ddprun
