// What all formats share. A format is known by its first bytes.
#include "ddprun/checkpoint/weights_file.h"

#include <array>
#include <fstream>
#include <utility>

#include "ddprun/checkpoint/safetensors.h"
#include "ddprun/checkpoint/torch_file.h"

namespace ddprun {

const TensorSpec* WeightsFile::find(const std::string& name) const {
  const auto found = indices_.find(name);
  return found == indices_.end() ? nullptr : &tensors_[found->second];
}

bool WeightsFile::add(TensorSpec tensor) {
  if (!indices_.emplace(tensor.name, tensors_.size()).second) return false;
  tensors_.push_back(std::move(tensor));
  return true;
}

std::unique_ptr<WeightsFile> open_weights(const std::filesystem::path& path) {
  std::array<char, 2> begin{};
  // Others than regular files are refused by whoever opens them next, before they are read.
  if (std::filesystem::is_regular_file(path)) {
    std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  }
  if (begin == std::array{'P', 'K'}) return std::make_unique<TorchFile>(path);
  return std::make_unique<SafetensorsFile>(path);
}

}  // namespace ddprun
