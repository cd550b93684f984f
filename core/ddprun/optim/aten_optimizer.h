// The optimizers by ATen's operators, for devices that have no kernels of our own.
#pragma once

#include <memory>

#include "ddprun/optim/optimizer.h"

namespace ddprun {

/// As make_optimizer(), to rounding, on any device. `config` has been checked.
std::unique_ptr<Optimizer> make_aten_optimizer(const OptimizerConfig& config, FlatBuffers& buffers);

/// The L2 norm, accumulated in double: a float64 scalar (), for which nobody waits.
at::Tensor aten_norm(const at::Tensor& values);

}  // namespace ddprun
