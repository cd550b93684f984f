// Ordinary memory for parameters and gradients.
#include "ddprun/base/private_memory.h"

#include <ATen/Functions.h>
#include <c10/core/Allocator.h>

#include <memory>

#include "ddprun/base/mapped_memory.h"

namespace ddprun {

at::Tensor allocate_private(std::int64_t elements, const at::TensorOptions& options) {
  const auto bytes = static_cast<std::size_t>(elements) * options.dtype().itemsize();
  constexpr std::size_t kLarge = std::size_t{2} << 20;  // a huge page
  if (!options.device().is_cpu() || bytes < kLarge) return at::zeros({elements}, options);
  const auto memory = std::make_shared<Mapping>(map_private(whole_pages(bytes)));
  // Reports it as PyTorch's own allocator does, so that whoever counts the memory of tensors sees
  // it.
  const auto report = [](void* data, std::int64_t change) {
    c10::reportMemoryUsageToProfiler(data, change, 0, 0, c10::kCPU);
  };
  const auto counted = static_cast<std::int64_t>(bytes);
  report(memory->data(), counted);
  return at::from_blob(
      memory->data(), {elements}, [memory, report, counted](void* data) { report(data, -counted); },
      options);
}

}  // namespace ddprun
