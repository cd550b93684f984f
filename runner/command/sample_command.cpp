// `ddprun sample`: text that the model of a checkpoint writes.
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/config/experiment.h"
#include "ddprun/model/generate.h"
#include "ddprun/model/pretrained_weights.h"
#include "ddprun/model/transformer.h"
#include "runner/command/checkpoint_paths.h"
#include "runner/command/commands.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// The attention that the checkpoint's run computed with.
std::shared_ptr<Attention> attention_of(const ConfigNode& experiment, const fs::path& folder,
                                        const Request& request) {
  const PluginChoice choice = read_choice(experiment, PluginKind::attention, folder / kStateFile);
  PluginRegistry registry = open_registry(request);
  if (!choice.path.empty()) registry.add_library(choice.path);
  return make_attention(registry, choice);
}

std::vector<std::int64_t> prompt_tokens(const Request& request, const ModelConfig& config) {
  std::vector<std::int64_t> tokens = byte_tokens(request.prompt);
  for (const std::int64_t token : tokens) {
    if (token < config.vocab_size) continue;
    throw ConfigError({.what = "the prompt has a byte that the model does not know",
                       .where = "--prompt",
                       .got = fmt::format("byte {}", token),
                       .expected = fmt::format("tokens below {}", config.vocab_size),
                       .hint = "write a prompt of other characters"});
  }
  if (!tokens.empty()) return tokens;
  throw ConfigError({.what = "there is nothing to go on with",
                     .where = "--prompt",
                     .got = "an empty text",
                     .expected = "a character at least",
                     .hint = "--prompt 'The '"});
}

/// Whether tokens are bytes: token files may hold anything.
bool is_of_text(const ConfigNode& experiment) {
  const ConfigNode* const data = experiment.find("data");
  const ConfigNode* const source = data == nullptr ? nullptr : data->find("source");
  return source != nullptr && source->scalar == "text";
}

}  // namespace

int sample_command(const Request& request) {
  const c10::NoGradGuard no_grad;
  const fs::path folder = checkpoint_at(request.paths.front());
  const CheckpointState state = read_state(folder);
  const ConfigNode experiment = experiment_of(state, folder);
  const ModelConfig config = model_of(experiment);
  const std::vector<std::int64_t> prompt = prompt_tokens(request, config);
  const std::shared_ptr<Attention> attention = attention_of(experiment, folder, request);
  const Transformer model(config, *attention, 0);
  PretrainedWeights(folder / kModelFile, config).load(model.parameters());

  const std::vector<std::int64_t> tokens =
      generate([&](const at::Tensor& ids) { return model.logits(ids); }, prompt,
               config.context_length, request.sampling);
  if (is_of_text(experiment)) {
    std::cout << printable(request.prompt + byte_text(tokens)) << "\n";
  } else {
    std::cout << fmt::format("{}\n", fmt::join(tokens, " "));
  }
  return kExitDone;
}

}  // namespace ddprun
