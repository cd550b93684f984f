// Files that have tensors by name, whatever their format.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/checkpoint/shared_tensors.h"

namespace ddprun {

class WeightsFile {
 public:
  virtual ~WeightsFile() = default;
  /// In the order of the file.
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// Null: the file has no tensor of that name.
  const TensorSpec* find(const std::string& name) const;
  /// A whole tensor that is there, contiguous, on the CPU. Throws Error if the file cannot be read.
  virtual at::Tensor read(const std::string& name) const = 0;

 protected:
  /// Behind the others. Returns false, and adds nothing, if there is one of that name.
  bool add(TensorSpec tensor);
  /// Of a tensor that is there, in tensors().
  std::size_t index_of(const std::string& name) const { return indices_.at(name); }

 private:
  std::vector<TensorSpec> tensors_;
  std::map<std::string, std::size_t> indices_;
};

/// Opens a file of safetensors (safetensors.h) or of torch.save (torch_file.h), which begins as a
/// ZIP does. Throws ConfigError.
std::unique_ptr<WeightsFile> open_weights(const std::filesystem::path& path);

}  // namespace ddprun
