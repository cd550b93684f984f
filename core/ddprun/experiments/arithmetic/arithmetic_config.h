// What is computed on paper: the YAML section `arithmetic:`.
#pragma once

#include <cstdint>

#include "ddprun/experiments/arithmetic/mesh.h"

namespace ddprun {

class Options;

struct ArithmeticConfig {
  std::int64_t d_model = 0, d_ff = 0, layers = 0;
  std::int64_t matrices = 2;
  std::int64_t tokens = 0;  ///< of all ranks; 0: what the rest is asked for
  std::int64_t data_ranks = 1, tensor_ranks = 1;
  std::int64_t data_links = 1, tensor_links = 1;
  double tflops = 0;
  double link_gb_per_s = 0;
  double latency_us = 0;
  std::int64_t element_bytes = 2;
  double memory_gb = 80;
  double sharded_activations = 1;
  bool asymptotic = false;

  LinearStack stack() const;
  Mesh mesh() const;
  Machine machine() const;
};

void declare_options(Options& options, ArithmeticConfig& config);

}  // namespace ddprun
