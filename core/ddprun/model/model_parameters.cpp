// Lists what Transformer registers.
#include "ddprun/model/model_parameters.h"

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/optim/parameter_groups.h"

namespace ddprun {

namespace {

std::vector<ModelParameter> all_parameters(const ModelConfig& config) {
  const std::int64_t d = config.d_model, f = config.d_ff;
  std::vector<ModelParameter> list = {{"token_embeddings.weight", {config.vocab_size, d}}};
  if (config.positions == Positions::learned) {
    list.push_back({"position_embeddings.weight", {config.context_length, d}});
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::string& name, std::vector<std::int64_t> sizes) {
      list.push_back({prefix + name, std::move(sizes)});
    };
    const auto norm = [&](const std::string& name) {
      add(name + ".weight", {d});
      if (config.norm == Norm::layernorm && config.bias) add(name + ".bias", {d});
    };
    const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
      add(name + ".weight", {out, in});
      if (config.bias) add(name + ".bias", {out});
    };
    norm("ln1");
    if (config.joint_qkv) {
      linear("attn.qkv_proj", 3 * d, d);
    } else {
      for (const char* name : {"attn.q_proj", "attn.k_proj", "attn.v_proj"}) linear(name, d, d);
    }
    linear("attn.output_proj", d, d);
    norm("ln2");
    linear("ffn.w1", f, d);
    if (config.activation == Activation::swiglu) linear("ffn.w3", f, d);
    linear("ffn.w2", d, f);
  }
  list.push_back({"ln_final.weight", {d}});
  if (config.norm == Norm::layernorm && config.bias) list.push_back({"ln_final.bias", {d}});
  if (!config.tie_embeddings) list.push_back({"lm_head.weight", {config.vocab_size, d}});
  return list;
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

}  // namespace ddprun
