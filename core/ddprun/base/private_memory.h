// Tensors in ordinary memory, in huge pages where the system grants them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun {

/// A zeroed tensor (elements,) of these options, on a 64-byte boundary at least. Large ones on the
/// CPU are mapped for themselves, in huge pages.
at::Tensor allocate_private(std::int64_t elements, const at::TensorOptions& options);

}  // namespace ddprun
