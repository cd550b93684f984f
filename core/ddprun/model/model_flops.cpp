// The operations of a step's matrix products, by formula.
#include "ddprun/model/model_parameters.h"
#include "ddprun/model/transformer.h"

namespace ddprun {

namespace {

/// Parameter by parameter.
double listed_flops_per_token(const ModelConfig& config) {
  // Scores and their product with v, causal: as much again for each of two gradients.
  const auto attention = static_cast<double>(2 * config.d_model * config.context_length);
  double flops = 0;
  // Whether some parameter before is trained, so that inputs have gradients. Matrices beside each
  // other (q, k, v; w1, w3) count as one behind the other.
  bool gradients_before = false;
  const std::vector<ModelParameter> parameters = model_parameters(config);
  for (const ModelParameter& each : parameters) {
    if (each.name.find("_embeddings.") != std::string::npos) {  // a look-up, no product
      gradients_before = gradients_before || each.trained;
      continue;
    }
    if (each.sizes.size() == 2) {
      flops += 2.0 * static_cast<double>(each.count()) *
               (1 + (each.trained ? 1 : 0) + (gradients_before ? 1 : 0));
    }
    gradients_before = gradients_before || each.trained;
    const bool values = each.name.ends_with("v_proj.weight");  // or qkv_proj
    if (values) flops += attention * (gradients_before ? 3 : 1);
  }
  if (!config.tie_embeddings) return flops;
  const auto head = static_cast<double>(config.vocab_size * config.d_model);
  const bool trained = parameters.front().trained;
  return flops + 2.0 * head * (1 + (trained ? 1 : 0) + (gradients_before ? 1 : 0));
}

}  // namespace

double matmul_flops_per_token(const ModelConfig& config) {
  if (!config.frozen.empty() || config.layers <= 2) return listed_flops_per_token(config);
  ModelConfig shallow = config;  // all blocks are alike
  shallow.layers = 1;
  const double of_one = listed_flops_per_token(shallow);
  shallow.layers = 2;
  const double of_two = listed_flops_per_token(shallow);
  return of_one + (of_two - of_one) * static_cast<double>(config.layers - 1);
}

}  // namespace ddprun
