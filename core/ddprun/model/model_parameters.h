// A transformer's parameters and the work of its matrix products, known without their memory.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "ddprun/model/model_config.h"

namespace ddprun {

struct ModelParameter {
  std::string name;
  std::vector<std::int64_t> sizes;
  std::string unit;              ///< as NamedTensor has it
  double mean = 0, std = 0;      ///< of its initial values
  bool read_in_float32 = false;  ///< as NamedTensor has it
  bool trained = true;           ///< false: a pattern of model.frozen matches its name

  std::int64_t count() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
  }
};

/// In the order of registration. A head that is tied to the embedding is not listed. Throws
/// ConfigError if a pattern of model.frozen matches no parameter, or nothing is left to train.
std::vector<ModelParameter> model_parameters(const ModelConfig& config);

/// The names of those that are trained.
std::vector<std::string> trained_names(const ModelConfig& config);

/// FLOPs per token of a training step's matrix products, forward and backward. 6 for each parameter
/// of a matrix (the embedding is a look-up, no product), and for attention half of 12 * layers *
/// d_model * context_length, because it is causal. A frozen matrix has no gradient (2 less), and
/// where nothing before it is trained its input has none either (2 less again, and a third of
/// attention's is left).
double matmul_flops_per_token(const ModelConfig& config);

}  // namespace ddprun
