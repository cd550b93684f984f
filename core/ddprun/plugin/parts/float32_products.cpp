// Switches TF32 on and off.
#include "ddprun/plugin/parts/float32_products.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace ddprun {

Float32Products::Float32Products(Format format)
    : tf32_before_(at::globalContext().allowTF32CuBLAS()) {
  at::globalContext().setAllowTF32CuBLAS(format == Format::tf32);
}

Float32Products::~Float32Products() { at::globalContext().setAllowTF32CuBLAS(tf32_before_); }

std::optional<Refusal> tf32_override(const std::string& allowed) {
  const char* const set = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (set == nullptr || set == allowed) return {};
  return Refusal{.reason = "NVIDIA_TF32_OVERRIDE=" + std::string(set) +
                           " decides instead what NVIDIA's libraries compute in",
                 .expected = "the variable not set, or NVIDIA_TF32_OVERRIDE=" + allowed,
                 .hint = "unset NVIDIA_TF32_OVERRIDE"};
}

}  // namespace ddprun
