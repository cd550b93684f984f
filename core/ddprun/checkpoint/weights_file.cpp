// A format is known by its first bytes.
#include "ddprun/checkpoint/weights_file.h"

#include <array>
#include <fstream>

#include "ddprun/checkpoint/safetensors.h"
#include "ddprun/checkpoint/torch_file.h"

namespace ddprun {

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
