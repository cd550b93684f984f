// `ddprun sample`: text that the model of a checkpoint writes.
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/options_io.h"
#include "ddprun/data/text_codec.h"
#include "ddprun/model/generate.h"
#include "ddprun/model/pretrained_weights.h"
#include "ddprun/model/transformer.h"
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

std::vector<std::int64_t> prompt_tokens(const Request& request, const TextCodec& codec,
                                        const ModelConfig& config) {
  std::vector<std::int64_t> tokens = codec.encode(request.prompt);
  for (const std::int64_t token : tokens) {
    if (token < config.vocab_size) continue;
    throw ConfigError({.what = "the prompt has a token that the model does not know",
                       .where = "--prompt",
                       .got = fmt::format("token {}", token),
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

/// Of what its data was. Throws ConfigError if nobody says what tokens are.
TextCodec codec_of(const ConfigNode& experiment, const fs::path& folder) {
  const auto config = read_section<DataConfig>(experiment, "data");
  TextCodec codec(config);
  if (codec.known()) return codec;
  throw ConfigError({.what = "nobody says what the model's tokens are",
                     .where = folder.string(),
                     .got = std::string("data.source ") + name_of(config.source),
                     .expected = "data.source text, or tokens with data.tokenizer",
                     .hint = "go on from it for a step with data.tokenizer, and save"});
}

}  // namespace

int sample_command(const Request& request) {
  const c10::NoGradGuard no_grad;
  const fs::path folder = checkpoint_at(request.paths.front());
  const CheckpointState state = read_state(folder);
  const ConfigNode experiment = parse_yaml(state.config, (folder / kStateFile).string());
  const auto config = read_section<ModelConfig>(experiment, "model");
  const TextCodec codec = codec_of(experiment, folder);
  const std::vector<std::int64_t> prompt = prompt_tokens(request, codec, config);
  const std::shared_ptr<Attention> attention = attention_of(experiment, folder, request);
  const Transformer model(config, *attention, 0);
  PretrainedWeights(folder / kModelFile, config).load(model.parameters());

  const std::vector<std::int64_t> tokens =
      generate([&](const at::Tensor& ids) { return model.logits(ids); }, prompt,
               config.context_length, request.sampling);
  std::cout << printable(request.prompt + codec.decode(tokens)) << "\n";
  return kExitDone;
}

}  // namespace ddprun
