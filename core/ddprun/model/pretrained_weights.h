// Weights from elsewhere: `model.init_from`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/checkpoint/weights_file.h"
#include "ddprun/model/model_config.h"
#include "ddprun/optim/named_tensor.h"

namespace ddprun {

/// What a file of weights lacks, or has otherwise, for the model: "lm_head.weight [64, 32], and
/// [256, 32] is needed". `find` gives what the file has of a parameter, or null. Empty: it has all.
std::string misfit(const ModelConfig& config,
                   const std::function<const TensorSpec*(const std::string& name)>& find);

/// The parameters of a model in files of safetensors or torch.save, under the course's names or in
/// Llama's layout (llama_layout.h). Values are read where they are asked for.
class PretrainedWeights {
 public:
  /// `path`: such a file, or a folder with `model.safetensors`, or with
  /// `model.safetensors.index.json` and the files that it names. Throws ConfigError if the weights
  /// are of another model.
  PretrainedWeights(const std::filesystem::path& path, const ModelConfig& config);

  /// Reads all; tells contents apart.
  std::uint64_t hash() const;
  /// Writes the model's parameters, rounded to their dtype, and returns hash() of what it read.
  std::uint64_t load(const std::vector<NamedTensor>& parameters) const;

 private:
  /// What the files have of our parameter.
  const WeightsFile* file_of(const std::string& name) const;
  std::string name_there(const std::string& name) const;
  void open(const std::filesystem::path& path);
  void check_fits(const std::filesystem::path& path) const;

  ModelConfig config_;
  bool llama_ = false;
  std::vector<std::unique_ptr<WeightsFile>> files_;
  std::map<std::string, std::size_t> places_;  ///< files by the names in them
};

}  // namespace ddprun
