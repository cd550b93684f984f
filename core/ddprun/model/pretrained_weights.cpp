// Finds the files, then each parameter in them.
#include "ddprun/model/pretrained_weights.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/json.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/text.h"
#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/model/llama_layout.h"
#include "ddprun/model/model_parameters.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse_weights(const fs::path& path, const std::string& what,
                                 const std::string& got) {
  throw ConfigError({.what = what,
                     .where = path.string(),
                     .got = got,
                     .expected = "the parameters of `model:`, each once, as floating-point numbers",
                     .hint = "the names are the course's, or those of Hugging Face's Llama; "
                             "docs/checkpoints.md has both"});
}

/// The files that an index names, each once.
std::set<std::string> files_of_index(const fs::path& index) {
  std::set<std::string> out;
  try {
    const auto json = parse_json(read_whole(index));
    for (const auto& [name, file] : json.at("weight_map").items()) {
      out.insert(file.get<std::string>());
      if (fs::path(*out.rbegin()).has_parent_path()) throw std::runtime_error("a path in it");
    }
  } catch (const std::exception& error) {
    refuse_weights(index, "the index of weights cannot be read", error.what());
  }
  return out;
}

}  // namespace

std::string misfit(const ModelConfig& config,
                   const std::function<const TensorSpec*(const std::string& name)>& find) {
  for (const ModelParameter& parameter : model_parameters(config)) {
    const TensorSpec* const found = find(parameter.name);
    if (found == nullptr) return parameter.name + " is not there";
    if (found->sizes == parameter.sizes) continue;
    return fmt::format("{} {}, and {} is needed", parameter.name, shape_text(found->sizes),
                       shape_text(parameter.sizes));
  }
  return {};
}

PretrainedWeights::PretrainedWeights(const fs::path& path, const ModelConfig& config)
    : config_(config) {
  open(path);
  llama_ = places_.contains(kLlamaEmbeddings);
  if (llama_) {
    check_is_llama(config, path.string());
    const fs::path facts = path / kLlamaConfig;
    if (fs::exists(facts)) check_llama_config(facts, config);
  }
  check_fits(path);
}

void PretrainedWeights::open(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at says why when it is read
  if (fs::status(path, ignored).type() == fs::file_type::not_found) {
    throw ConfigError({.what = "there are no weights of that name",
                       .where = path.string(),
                       .got = "nothing of that name",
                       .expected = "a checkpoint, a file of safetensors or torch.save, or a folder "
                                   "with a Llama of Hugging Face",
                       .hint = "model.init_from is seen from the YAML file's folder"});
  }
  const fs::path index = path / kIndex;
  if (fs::exists(index)) {
    for (const std::string& name : files_of_index(index))
      files_.push_back(open_weights(path / name));
  } else {
    files_.push_back(open_weights(fs::is_directory(path) ? path / kModelFile : path));
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const TensorSpec& tensor : files_[i]->tensors()) {
      if (places_.emplace(tensor.name, i).second) continue;
      refuse_weights(path, "two files of weights have the same tensor", tensor.name);
    }
  }
}

void PretrainedWeights::check_fits(const fs::path& path) const {
  std::set<std::string> used;
  const std::string lacking = misfit(config_, [&](const std::string& name) -> const TensorSpec* {
    const WeightsFile* const file = file_of(name);
    if (file == nullptr) return nullptr;
    used.insert(name_there(name));
    const TensorSpec* const tensor = file->find(name_there(name));
    if (!at::isFloatingType(tensor->dtype)) {
      refuse_weights(path, "weights are no floating-point numbers",
                     fmt::format("{} of {}", name, c10::toString(tensor->dtype)));
    }
    return tensor;
  });
  if (!lacking.empty()) refuse_weights(path, "the weights are of another model", lacking);
  for (const auto& [name, file] : places_) {
    // Frequencies follow from rope_theta; a tied head may be written twice.
    const bool known = used.contains(name) || name.ends_with("rotary_emb.inv_freq") ||
                       (config_.tie_embeddings && name == "lm_head.weight");
    if (!known) {
      refuse_weights(path, "the weights are of another model",
                     name + ", which the model does not have");
    }
  }
}

std::string PretrainedWeights::name_there(const std::string& name) const {
  return llama_ ? llama_name(name).value_or("") : name;
}

const WeightsFile* PretrainedWeights::file_of(const std::string& name) const {
  const auto found = places_.find(name_there(name));
  return found == places_.end() ? nullptr : files_[found->second].get();
}

std::uint64_t PretrainedWeights::hash() const { return load({}); }

std::uint64_t PretrainedWeights::load(const std::vector<NamedTensor>& parameters) const {
  const c10::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> places;
  for (const NamedTensor& each : parameters) places[each.name] = each.tensor;
  Hash64 hash;
  for (const ModelParameter& parameter : model_parameters(config_)) {
    const at::Tensor weight = file_of(parameter.name)->read(name_there(parameter.name));
    hash.add(weight.const_data_ptr(), weight.nbytes());
    const auto place = places.find(parameter.name);
    if (place == places.end()) continue;
    place->second.copy_(llama_ ? from_llama(parameter.name, weight, config_) : weight);
  }
  return hash.value();
}

}  // namespace ddprun
