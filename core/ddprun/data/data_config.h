// What a model is trained on: the YAML section `data:`.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

class Options;

struct DataConfig {
  std::string source = "random";  ///< text | tokens | random
  /// Files or folders (text), files (tokens); relative to the YAML file.
  std::vector<std::string> path = {};
  std::string token_type = "uint16";  ///< uint16 | uint32, little-endian (tokens)
};

void declare_options(Options& options, DataConfig& config);

}  // namespace ddprun
