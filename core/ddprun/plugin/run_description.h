// The run that a plugin is asked about, for Plugin::unsupported().
#pragma once

#include <cstdint>
#include <optional>

#include "ddprun/base/error.h"
#include "ddprun/comm/group/comm_config.h"
#include "ddprun/device/device_choice.h"
#include "ddprun/kernels/kernel_set.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/optimizer_config.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// Known before any rank starts; describe_run() makes it. All sizes are of one rank.
struct RunDescription {
  int world_size = 1;
  DeviceKind device = DeviceKind::cpu;
  int compute_capability = 0;  ///< 90 is 9.0: of its GPU, or the host's least; on the CPU 0
  BackendKind backend = BackendKind::automatic;  ///< as configured
  /// cuda_graph: a step is captured once, and replayed.
  ExecutionMode execution = ExecutionMode::eager;
  std::int64_t micro_batch = 0;     ///< sequences in one forward
  std::int64_t accumulate = 1;      ///< micro-batches in one step
  std::int64_t context_length = 0;  ///< tokens in a sequence
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t d_ff = 0;
  BufferDtypes dtypes = {};  ///< the precision's; it is asked before the others
  bool scales_loss = false;  ///< the precision's
  KernelSet kernels = KernelSet::reference;
  std::int64_t recomputed_units = 0;  ///< the most that backward computes again at once
  OptimizerConfig optimizer = {};     ///< as configured
};

}  // namespace ddprun
