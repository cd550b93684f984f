// Tensors in ordinary memory, in huge pages where the system grants them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun {

/// A zeroed tensor (elements,) of these options, aligned to 64 bytes at least. A large tensor on
/// the CPU gets a mapping of its own, in huge pages.
at::Tensor allocate_private(std::int64_t elements, const at::TensorOptions& options);

}  // namespace ddprun
