// Whether a GPU multiplies float32 matrices as float32 or as TF32.
#pragma once

#include <optional>
#include <string>

#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// Sets how PyTorch computes products of float32 matrices on GPUs, in the whole process, and
/// restores it at its end. It overrides PyTorch's own variable, TORCH_ALLOW_TF32_CUBLAS_OVERRIDE.
class Float32Products {
 public:
  enum class Format { float32, tf32 };
  explicit Float32Products(Format format);
  ~Float32Products();
  Float32Products(const Float32Products&) = delete;
  Float32Products& operator=(const Float32Products&) = delete;

 private:
  bool tf32_before_;
};

/// For unsupported(): a refusal if NVIDIA_TF32_OVERRIDE is set to anything but `allowed` ("0":
/// never TF32). NVIDIA's libraries follow that variable, whatever a program asks for.
std::optional<Refusal> tf32_override(const std::string& allowed);

}  // namespace ddprun
