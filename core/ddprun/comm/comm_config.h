// What the process group is told: which backend joins the ranks, and how long one waits for
// another.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ddprun {

class Options;

/// `world.backend`: what carries the collectives. `automatic` is written "auto".
enum class BackendKind { automatic, gloo, shm, hierarchical, nccl };
constexpr auto choice_names(BackendKind) {
  return std::array{"auto", "gloo", "shm", "hierarchical", "nccl"};
}

struct CommConfig {
  BackendKind backend = BackendKind::automatic;
  std::int64_t gloo_threads = 2;  ///< collectives that gloo runs at a time
  /// Network interface of gloo; empty: the one of the master's address.
  std::string interface = "";
  double timeout_s = 60.0;  ///< of the rendezvous and of every collective
};

/// The options that stand directly under `world:`, beside those of WorldConfig.
void declare_options(Options& options, CommConfig& config);

}  // namespace ddprun
