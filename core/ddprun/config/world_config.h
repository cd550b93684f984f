// Ranks, what they compute on, and their connection: the YAML section `world:`.
#pragma once

#include <cstdint>

#include "ddprun/comm/group/comm_config.h"
#include "ddprun/device/device_choice.h"

namespace ddprun {

struct WorldConfig {
  std::int64_t size = 1;
  DeviceKind device = DeviceKind::cpu;
  std::int64_t threads_per_rank = 0;  ///< 0: the host's cores divided by its ranks, at least 1
  bool pin = true;                    ///< each local rank to its share of the cores
  bool emulate_ranks_on_one_gpu = false;
  double memory_limit_gb = 0;  ///< of private memory that a rank takes; 0: what the machine has
  bool memory_check = true;    ///< whether a run for which the machine has too little is refused
  /// Seconds for which a rank's own work may show no progress; 0: no limit.
  double progress_timeout_s = 1800;
  CommConfig comm;  ///< its options stand directly under `world:` (backend, gloo_threads, ...)

  /// Whether several ranks share one GPU. What they compute is right; their times mean nothing.
  bool emulated() const { return emulate_ranks_on_one_gpu && size > 1; }
};

void declare_options(Options& options, WorldConfig& config);

}  // namespace ddprun
