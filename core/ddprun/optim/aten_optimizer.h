// The optimizers by ATen's operators, for devices that have no kernels of our own.
#pragma once

#include <memory>

#include "ddprun/optim/optimizer.h"

namespace ddprun {

/// The same as make_optimizer() on any device, up to rounding. `config` has been checked.
std::unique_ptr<Optimizer> make_aten_optimizer(const OptimizerConfig& config, FlatBuffers& buffers);

/// The L2 norm, accumulated in double: a float64 scalar () on the device of `values`. It does not
/// wait for the device.
at::Tensor aten_norm(const at::Tensor& values);

}  // namespace ddprun
