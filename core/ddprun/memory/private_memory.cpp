// Ordinary memory for parameters and gradients.
#include "ddprun/memory/private_memory.h"

#include <ATen/Functions.h>

#include <memory>

#include "ddprun/memory/cpu_memory.h"
#include "ddprun/memory/mapped_memory.h"

namespace ddprun {

at::Tensor allocate_private(std::int64_t elements, const at::TensorOptions& options) {
  const auto bytes = static_cast<std::size_t>(elements) * options.dtype().itemsize();
  constexpr std::size_t kLarge = std::size_t{2} << 20;  // a huge page
  if (!options.device().is_cpu() || bytes < kLarge) return at::zeros({elements}, options);
  const auto memory = std::make_shared<Mapping>(map_private(bytes));
  const auto counted = CpuMemory::count_bytes(static_cast<std::int64_t>(bytes), memory->data());
  return at::from_blob(
      memory->data(), {elements}, [memory, counted](void*) {}, options);
}

}  // namespace ddprun
