// Whether backward can start at what a training loop calls its loss.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

/// Throws Error unless it is a scalar to which parameters lead.
void check_loss(const at::Tensor& value);

/// Autograd's backward, which frees the graph. Throws Error if that was done before.
void backward_from(const at::Tensor& loss);

}  // namespace ddprun
