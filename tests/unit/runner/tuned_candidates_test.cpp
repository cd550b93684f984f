// Which settings are tried.
#include <string>
#include <vector>

#include "runner/tune/candidates.h"
#include "support/matchers.h"

namespace ddprun::tuned_candidates_test {
namespace {

TunedPlugins plugins() {
  return {.names =
              [](PluginKind kind) {
                return kind == PluginKind::strategy ? std::vector<std::string>{"bucketed", "flat"}
                                                    : std::vector<std::string>{"eager", "flash"};
              },
          .has_option =
              [](PluginKind kind, const std::string& name, const std::string& option) {
                return kind == PluginKind::strategy && name == "bucketed" && option == "bucket_mb";
              }};
}

std::vector<std::string> labels(const std::string& file, const std::string& over) {
  const ConfigNode document = parse_yaml(file, "file.yaml");
  std::vector<std::string> out;
  for (const Candidate& each :
       candidates_of(document, with_values(parse_over(over), document, plugins()), plugins())) {
    out.push_back(each.label());
  }
  return out;
}

std::string error_of_over(const std::string& over) {
  return test::error_of<ConfigError>([&] {
    const std::vector<TunedKey> keys = parse_over(over);
    check_tuned(keys, {"model.layers", "train.accumulate", "train.global_batch"});
    with_values(keys, parse_yaml("strategy: flat", "file.yaml"), plugins());
  });
}

TEST(TunedCandidates, AreTheInstalledPluginsWithTheirOptions) {
  EXPECT_THAT(labels("strategy: flat", "strategy,strategy.bucket_mb"),
              ElementsAre("strategy=bucketed(bucket_mb=1)", "strategy=bucketed(bucket_mb=4)",
                          "strategy=bucketed(bucket_mb=25)", "strategy=bucketed(bucket_mb=100)",
                          "strategy=flat"));
  EXPECT_THAT(labels("strategy: flat", "strategy.bucket_mb=1|2,strategy"),
              ElementsAre("strategy=bucketed(bucket_mb=1)", "strategy=bucketed(bucket_mb=2)",
                          "strategy=flat"))
      << "a plugin is chosen before its options";
  EXPECT_THAT(labels("strategy: bucketed", "strategy.bucket_mb=7"),
              ElementsAre("strategy=bucketed(bucket_mb=7)"));
  EXPECT_THAT(labels("strategy: flat", "strategy.bucket_mb=7"), ElementsAre("strategy=flat"));
}

TEST(TunedCandidates, AreEveryCombination) {
  EXPECT_THAT(labels("strategy: flat", "attention,model.recompute={every: 2}|none"),
              ElementsAre("attention=eager, model.recompute={every: 2}",
                          "attention=eager, model.recompute=none",
                          "attention=flash, model.recompute={every: 2}",
                          "attention=flash, model.recompute=none"));
  EXPECT_THAT(labels("strategy: flat", "train.accumulate"),
              ElementsAre("train.accumulate=1", "train.accumulate=2", "train.accumulate=4"));
}

TEST(TunedCandidates, AreTheValuesOfTheSweep) {
  const std::string file = "sweep: {strategy: [flat, {name: bucketed, bucket_mb: 3}]}";
  EXPECT_THAT(labels(file, "strategy"),
              ElementsAre("strategy=flat", "strategy=bucketed(bucket_mb=3)"));
  EXPECT_THAT(labels(file, "strategy=flat"), ElementsAre("strategy=flat"))
      << "what is typed comes first";
}

TEST(TunedCandidates, APluginKeepsTheOptionsThatTheFileGivesIt) {
  EXPECT_THAT(labels("strategy: {name: bucketed, bucket_mb: 3}", "strategy"),
              ElementsAre("strategy=bucketed(bucket_mb=3)", "strategy=flat"));
}

TEST(TunedCandidates, OverridesSayTheSame) {
  const ConfigNode document = parse_yaml("strategy: {name: bucketed, bucket_mb: 3}", "file.yaml");
  const Candidate candidate = candidate_of(document, parse_yaml("{world: {pin: true}}", "resolved"),
                                           parse_over("strategy.bucket_mb,world.pin=true|false"));
  EXPECT_EQ(candidate.label(), "strategy=bucketed(bucket_mb=3), world.pin=true");
  EXPECT_THAT(candidate.overrides(),
              ElementsAre(R"(strategy={"bucket_mb":3,"name":"bucketed"})", "world.pin=true"));
}

TEST(TunedCandidates, RefusesWhatCannotBeTuned) {
  EXPECT_THAT(error_of_over("model.layers=1|2"), HasSubstr("changes what is trained"));
  EXPECT_THAT(error_of_over("train.global_batch=1|2"), HasSubstr("changes what is trained"));
  EXPECT_THAT(error_of_over("train.acumulate=1|2"), HasSubstr("did you mean 'train.accumulate'?"));
  EXPECT_THAT(error_of_over("strategy.bukcet_mb=1|2"),
              HasSubstr("did you mean 'strategy.bucket_mb'?"));
  EXPECT_THAT(error_of_over("precision"), HasSubstr("another precision is another arithmetic"));
  EXPECT_THAT(error_of_over("world.threads_per_rank"), HasSubstr("nothing says which values"));
  EXPECT_THAT(error_of_over("strategy,strategy"), HasSubstr("has a key twice"));
  EXPECT_THAT(error_of_over("strategy,"), HasSubstr("has an empty key"));
  EXPECT_THAT(error_of_over("strategy=flat|"), HasSubstr("a value of --over is empty"));
  EXPECT_EQ(error_of_over("precision=fp32|bf16_mixed,strategy={name: a, b: [1, 2]}|flat"),
            "no error")
      << "the user names the arithmetic";
}

}  // namespace
}  // namespace ddprun::tuned_candidates_test
