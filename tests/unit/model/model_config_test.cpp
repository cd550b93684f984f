// Presets, their parameter counts by hand, and the YAML section `model:`.
#include "ddprun/model/model_config.h"

#include <map>

#include "ddprun/base/options.h"
#include "ddprun/model/model_parameters.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

// A user's input of texts and integers; remembers what was declared.
class Input : public Options {
 public:
  std::map<std::string, std::string> texts;
  std::map<std::string, std::int64_t> integers;
  std::map<std::string, OptionSpec> declared;
  std::vector<std::string> order;

  void section(const std::string&, const std::string&,
               const std::function<void(Options&)>& declare) override {
    declare(*this);
  }
  void list(const std::string& key, const std::string&, const SectionList&) override {
    order.push_back(key);
  }
  void choice_or_section(const std::string& key, ChoiceTarget, const std::string&,
                         const std::function<void(Options&)>&) override {
    order.push_back(key);
  }

 protected:
  bool visit(const OptionSpec& spec, OptionTarget target) override {
    order.push_back(spec.key);
    declared[spec.key] = spec;
    if (texts.contains(spec.key)) {
      *std::get<std::string*>(target) = texts.at(spec.key);
      return true;
    }
    if (integers.contains(spec.key)) {
      *std::get<std::int64_t*>(target) = integers.at(spec.key);
      return true;
    }
    return false;
  }
};

std::vector<std::int64_t> sizes(const ModelConfig& c) {
  return {c.vocab_size, c.context_length, c.d_model, c.d_ff, c.layers, c.heads};
}

TEST(ModelPreset, SizesAreThoseOfTheCourse) {
  EXPECT_EQ(model_presets().front().preset, "tiny");
  EXPECT_THAT(sizes(model_preset("tiny")), ElementsAre(10000, 128, 256, 1024, 4, 4));
  EXPECT_THAT(sizes(model_preset("small")), ElementsAre(10000, 128, 768, 3072, 12, 12));
  EXPECT_THAT(sizes(model_preset("medium")), ElementsAre(10000, 128, 1024, 4096, 24, 16));
  EXPECT_THAT(sizes(model_preset("large")), ElementsAre(10000, 128, 1280, 5120, 36, 20));
  EXPECT_THAT(sizes(model_preset("xl-2025")), ElementsAre(10000, 128, 1600, 6400, 48, 25));
  EXPECT_THAT(sizes(model_preset("2.7B-2025")), ElementsAre(10000, 128, 2560, 10240, 32, 32));
  EXPECT_THAT(sizes(model_preset("xl-2026")), ElementsAre(10000, 128, 2560, 10240, 32, 32));
  EXPECT_THAT(sizes(model_preset("10B-2026")), ElementsAre(10000, 128, 4608, 12288, 50, 36));
  EXPECT_THAT(sizes(model_preset("8B-leaderboard")),
              ElementsAre(151936, 32768, 4096, 11008, 34, 32));
  EXPECT_THAT(sizes(model_preset("peer-small")), ElementsAre(10000, 256, 512, 1344, 8, 8));
}

// 2 V d + layers (4 d^2 + 3 d d_ff + 2 d) + d, summed tensor by tensor outside this program.
TEST(ModelPreset, ParameterCounts) {
  const std::map<std::string, std::int64_t> expected = {
      {"tiny", 9316608},        {"small", 128625408},      {"medium", 423183360},
      {"large", 969411840},     {"xl-2025", 1998235200},   {"2.7B-2025", 3406809600},
      {"xl-2026", 3406809600},  {"10B-2026", 12832823808}, {"8B-leaderboard", 8125698048},
      {"laptop-70m", 70873600}, {"peer-small", 35152384},  {"laptop-gpt2", 70859776},
      {"gpt2", 124439808},
  };
  for (const ModelConfig& preset : model_presets()) {
    EXPECT_EQ(preset.parameter_count(), expected.at(preset.preset)) << preset.preset;
  }
  EXPECT_EQ(expected.size(), model_presets().size());
  EXPECT_EQ(model_parameters(model_preset("laptop-gpt2")).size(), 149) << "tensors";
}

TEST(ModelPreset, UnknownNameListsTheKnownOnes) {
  const ErrorText error = test::error_text_of<ConfigError>([&] { model_preset("xl"); });
  EXPECT_EQ(error.got, "xl");
  EXPECT_THAT(error.expected, HasSubstr("xl-2025"));
  EXPECT_THAT(error.expected, HasSubstr("xl-2026"));
}

TEST(ModelOptions, NothingGivenMeansTiny) {
  ModelConfig config;
  Input input;
  declare_options(input, config);
  EXPECT_EQ(sizes(config), sizes(model_preset("tiny")));
  EXPECT_THAT(
      input.order,
      ElementsAre("preset", "vocab_size", "context_length", "d_model", "d_ff", "layers", "heads",
                  "rope_theta", "norm_eps", "kernels", "norm", "positions", "activation", "bias",
                  "joint_qkv", "tie_embeddings", "frozen", "init_from", "recompute", "unit"));
  EXPECT_EQ(input.declared.at("preset").limits.one_of.size(), model_presets().size());
  EXPECT_EQ(input.declared.at("layers").limits.min, 1.0);
}

TEST(ModelOptions, PresetGivesTheDefaultsOfTheOthers) {
  ModelConfig config;
  Input input;
  input.texts = {{"preset", "small"}};
  input.integers = {{"layers", 2}};
  declare_options(input, config);
  EXPECT_THAT(sizes(config), ElementsAre(10000, 128, 768, 3072, 2, 12));
  EXPECT_EQ(config.preset, "small");
}

TEST(ModelOptions, AVisitorThatSetsNothingChangesNothing) {
  ModelConfig config = model_preset("medium");
  config.layers = 3;
  config.rope_theta = 5000;
  Input writer;
  declare_options(writer, config);
  EXPECT_THAT(sizes(config), ElementsAre(10000, 128, 1024, 4096, 3, 16));
  EXPECT_EQ(config.rope_theta, 5000);
}

TEST(MatmulFlops, Tiny) {
  // 6 (4 (4 256^2 + 3 256 1024) + 10000 256) + 6 4 256 128
  EXPECT_EQ(matmul_flops_per_token(model_preset("tiny")), 41312256.0);
}

}  // namespace
}  // namespace ddprun
