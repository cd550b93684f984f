// Files that have tensors by name, whatever their format.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/checkpoint/shared_tensors.h"

namespace ddprun {

class WeightsFile {
 public:
  virtual ~WeightsFile() = default;
  /// In the order of the file.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  /// Null: the file has no tensor of that name.
  virtual const TensorSpec* find(const std::string& name) const = 0;
  /// A whole tensor that is there, contiguous, on the CPU. Throws Error if the file cannot be read.
  virtual at::Tensor read(const std::string& name) const = 0;
};

/// Opens a file of safetensors (safetensors.h) or of torch.save (torch_file.h), which begins as a
/// ZIP does. Throws ConfigError.
std::unique_ptr<WeightsFile> open_weights(const std::filesystem::path& path);

}  // namespace ddprun
