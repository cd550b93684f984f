// Lists what Transformer registers, and counts by that list.
#include "ddprun/model/model_parameters.h"

#include <algorithm>
#include <cmath>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/optim/parameter_groups.h"

namespace ddprun {

namespace {

constexpr double kPositionStd = 0.02;  // GPT-2's

double linear_std(std::int64_t out, std::int64_t in) {
  return std::sqrt(2.0 / static_cast<double>(in + out));
}

std::vector<ModelParameter> all_parameters(const ModelConfig& config) {
  const std::int64_t d = config.d_model, f = config.d_ff, vocabulary = config.vocab_size;
  std::vector<ModelParameter> list;
  std::string unit;
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in, double std) {
    list.push_back({.name = name + ".weight", .sizes = {out, in}, .unit = unit, .std = std});
  };
  const auto bias = [&](const std::string& layer, std::int64_t out, bool read_in_float32) {
    if (!config.bias) return;
    list.push_back({layer + ".bias", {out}, unit, 0, 0, read_in_float32});
  };
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    matrix(name, out, in, linear_std(out, in));
    bias(name, out, false);
  };
  const auto norm = [&](const std::string& name) {
    list.push_back({name + ".weight", {d}, unit, 1, 0, true});
    if (config.norm == Norm::layernorm) bias(name, d, true);
  };
  unit = "token_embeddings";
  matrix(unit, vocabulary, d, config.tie_embeddings ? linear_std(vocabulary, d) : 1);
  if (config.positions == Positions::learned) {
    matrix("position_embeddings", config.context_length, d, kPositionStd);
  }
  for (ModelParameter& each : list) each.read_in_float32 = true;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string block = "layers." + std::to_string(layer);
    const std::string attention = block + ".attn", feed_forward = block + ".ffn";
    const bool by_layer = config.unit == UnitSize::layer;
    unit = by_layer ? attention : block;
    norm(block + ".ln1");
    if (config.joint_qkv) {
      linear(attention + ".qkv_proj", 3 * d, d);
    } else {
      for (const char* name : {".q_proj", ".k_proj", ".v_proj"}) linear(attention + name, d, d);
    }
    linear(attention + ".output_proj", d, d);
    unit = by_layer ? feed_forward : block;
    norm(block + ".ln2");
    linear(feed_forward + ".w1", f, d);
    if (config.activation == Activation::swiglu) linear(feed_forward + ".w3", f, d);
    linear(feed_forward + ".w2", d, f);
  }
  unit = "head";
  norm("ln_final");
  if (!config.tie_embeddings) matrix("lm_head", vocabulary, d, linear_std(vocabulary, d));
  return list;
}

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

std::vector<ModelParameter> model_parameters(const ModelConfig& config) {
  std::vector<ModelParameter> list = all_parameters(config);
  for (const std::string& pattern : config.frozen) {
    bool used = false;
    for (ModelParameter& each : list) {
      if (!matches(each.name, pattern)) continue;
      each.trained = false;
      used = true;
    }
    if (used) continue;
    refuse_pattern("model.frozen", pattern, mapped(list, &ModelParameter::name),
                   "* stands for any text, dots included");
  }
  const auto trained = [](const ModelParameter& each) { return each.trained; };
  if (std::ranges::any_of(list, trained)) return list;
  throw ConfigError({.what = "all parameters are frozen, so nothing would be trained",
                     .where = "model.frozen",
                     .got = "patterns that match every parameter",
                     .expected = "one parameter at least that none matches",
                     .hint = "train.measure forward runs the model without training it"});
}

std::int64_t ModelConfig::parameter_count() const {
  const auto count_with = [this](std::int64_t blocks) {
    ModelConfig config = *this;
    config.layers = blocks;
    std::int64_t count = 0;
    for (const ModelParameter& each : all_parameters(config)) count += each.count();
    return count;
  };
  const std::int64_t without = count_with(0);
  return without + layers * (count_with(1) - without);  // a list of all may be gigabytes
}

std::vector<std::string> trained_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const ModelParameter& each : model_parameters(config)) {
    if (each.trained) names.push_back(each.name);
  }
  return names;
}

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
