// Overrides and sweeps: what a document becomes, and the text of each error.
#include "ddprun/config/sweep.h"

#include "support/matchers.h"
#include "support/sweep_points.h"

namespace ddprun {
namespace {

using test::message_of;

std::vector<std::string> labels(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& point : test::points_of(parse_yaml(text, "a.yaml"))) out.push_back(point.label);
  return out;
}

std::string sweep_error(const std::string& text) {
  return test::error_of<ConfigError>([&] { test::points_of(parse_yaml(text, "a.yaml")); });
}

TEST(Override, SetsScalarsListsMappingsAndMakesSections) {
  ConfigNode root = parse_yaml("train: {steps: 10}\nstrategy: bucketed\nmodel:\n", "a.yaml");
  apply_override(root, "train.steps=20");
  apply_override(root, "train.seed=3");
  apply_override(root, "strategy.bucket_mb=5");
  apply_override(root, "optimizer.schedule.name=cosine");
  apply_override(root, "data={source: text, path: [a=b, c]}");
  apply_override(root, "model.layers=2");
  apply_override(root, "name=\"5\"");
  EXPECT_EQ(
      compact(root),
      "{train: {steps: 20, seed: 3}, strategy: {name: bucketed, bucket_mb: 5}, model: {layers: 2}, "
      "optimizer: {schedule: {name: cosine}}, data: {source: text, path: [a=b, c]}, name: \"5\"}");
  EXPECT_EQ(root.find("train")->find("steps")->origin, "--set train.steps=20");
  EXPECT_EQ(root.find("train")->find("steps")->key_origin, "--set train.steps=20");
  EXPECT_EQ(root.find("data")->find("path")->list[0].origin,
            "--set data={source: text, path: [a=b, c]}");
  EXPECT_EQ(root.find("strategy")->find("name")->origin, "a.yaml:2:11");
}

TEST(Override, MalformedOnesAreRefused) {
  const auto error = [](const std::string& assignment) {
    ConfigNode root = parse_yaml("train: {betas: [1, 2]}\n", "a.yaml");
    return test::error_of<ConfigError>([&] { apply_override(root, assignment); });
  };
  EXPECT_EQ(error("train.steps"),
            message_of("malformed override", "--set train.steps", "no key, or no '='",
                       "--set key.path=value", "as in --set train.steps=20"));
  EXPECT_EQ(error("name="), message_of("malformed override", "--set name=", "no value",
                                       "--set key.path=value", "for empty text write \"\""));
  EXPECT_EQ(error("train..steps=5"),
            message_of("malformed key path 'train..steps'", "--set train..steps=5",
                       "an empty key, or one with a space, ':' or '='",
                       "keys joined by single dots", "as in train.steps"));
  EXPECT_EQ(error("train.betas.0=5"),
            message_of("the key path 'train.betas.0' runs through a list", "--set train.betas.0=5",
                       "[1, 2]", "a path through mappings", "set the whole list instead"));
  EXPECT_EQ(error("train.steps=[1"),
            message_of("YAML syntax error: end of sequence flow not found", "--set train.steps=[1",
                       "text that is no YAML", "YAML 1.2",
                       "look here and at the line above: indentation, an open bracket or quote"));
}

TEST(Sweep, IsACrossProductWithTheLastKeyFastest) {
  EXPECT_THAT(labels("sweep:\n  strategy: [flat, naive]\n  world.size: [1, 2]\n"),
              ElementsAre("strategy=flat, world.size=1", "strategy=flat, world.size=2",
                          "strategy=naive, world.size=1", "strategy=naive, world.size=2"));
}

TEST(Sweep, WholeNodesReplaceAndKeepTheirPlaces) {
  const auto points =
      test::points_of(parse_yaml("strategy: {name: flat, left_over: 1}\n"
                                 "sweep:\n"
                                 "  strategy:\n"
                                 "    - naive\n"
                                 "    - {name: bucketed, bucket_mb: 5}\n"
                                 "  optimizer.betas: [[0.9, 0.95]]\n",
                                 "a.yaml"));
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].label, "strategy=naive, optimizer.betas=[0.9, 0.95]");
  EXPECT_EQ(points[1].label, "strategy=bucketed(bucket_mb=5), optimizer.betas=[0.9, 0.95]");
  EXPECT_EQ(compact(points[1].document),
            "{strategy: {name: bucketed, bucket_mb: 5}, optimizer: {betas: [0.9, 0.95]}}");
  EXPECT_EQ(points[1].document.find("strategy")->find("bucket_mb")->origin, "a.yaml:5:35");
  EXPECT_EQ(points[1].document.find("strategy")->key_origin, "a.yaml:3:3");
}

TEST(Sweep, AValueBelowANodeThatIsSweptToo) {
  const auto points = test::points_of(
      parse_yaml("sweep: {strategy: [bucketed], strategy.bucket_mb: [1, 5]}\n", "a.yaml"));
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(compact(points[1].document), "{strategy: {name: bucketed, bucket_mb: 5}}");
}

TEST(Sweep, NoneOrAnEmptyOneGivesTheDocument) {
  EXPECT_THAT(labels("a: 1\n"), ElementsAre(""));
  const auto points = test::points_of(parse_yaml("a: 1\nsweep: {}\n", "a.yaml"));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(compact(points[0].document), "{a: 1}");
}

TEST(Sweep, AnErrorAtAPointEndsItBeforeTheNextIsMade) {
  const ConfigNode root = parse_yaml("sweep: {a: [1, 2, 3], b: [1, 2]}\n", "a.yaml");
  std::vector<std::string> seen;
  const auto refuse_the_second = [&](const SweepPoint& point) {
    seen.push_back(point.label);
    if (seen.size() == 2) throw ConfigError({.what = "refused"});
  };
  EXPECT_THROW(for_each_point(root, refuse_the_second), ConfigError);
  EXPECT_THAT(seen, ElementsAre("a=1, b=1", "a=1, b=2"));
}

TEST(Sweep, OverridesCanSetItAndDropIt) {
  ConfigNode root = parse_yaml("sweep: {world.size: [1, 2]}\n", "a.yaml");
  apply_override(root, "sweep.world.size=[4]");
  apply_override(root, "sweep.strategy=[flat]");
  EXPECT_EQ(compact(root), "{sweep: {world.size: [4], strategy: [flat]}}");
  apply_override(root, "sweep={}");
  EXPECT_EQ(test::points_of(root).size(), 1u);
}

TEST(Sweep, MalformedOnesAreRefused) {
  EXPECT_EQ(sweep_error("sweep: [1, 2]\n"),
            message_of("sweep must be a mapping", "a.yaml:1:8", "[1, 2]",
                       "key paths, each with a list of values", "sweep: {world.size: [1, 2]}"));
  EXPECT_EQ(sweep_error("sweep:\n  strategy: flat\n"),
            message_of("sweep over 'strategy' must be given a list of values", "a.yaml:2:13",
                       "flat", "a list of at least one value", "strategy: [flat]"));
  EXPECT_EQ(sweep_error("sweep:\n  strategy: []\n"),
            message_of("sweep over 'strategy' must be given a list of values", "a.yaml:2:13", "[]",
                       "a list of at least one value", "strategy: [...]"));
  EXPECT_EQ(sweep_error("sweep:\n  train: {eval: {every: [1, 2]}}\n"),
            message_of("sweep over 'train' must be given a list of values", "a.yaml:2:10",
                       "{eval: {every: [1, 2]}}", "a list of at least one value",
                       "train.eval.every: [1, 2]"));
  EXPECT_EQ(sweep_error("sweep:\n  sweep.a: [1]\n"),
            message_of("a sweep cannot change itself", "a.yaml:2:3", "sweep.a",
                       "a key path of the experiment", "remove it"));
  EXPECT_EQ(
      sweep_error("sweep:\n  report.repeats: [1, 3]\n"),
      message_of("a sweep cannot change the report, which is of all of its points", "a.yaml:2:3",
                 "report.repeats", "a key path of the experiment", "remove it"));
  EXPECT_EQ(sweep_error("sweep:\n  strategy.bucket_mb: [1]\n  strategy: [flat]\n"),
            message_of("sweep over 'strategy' replaces the values of 'strategy.bucket_mb'",
                       "a.yaml:3:3", "the longer path first", "the shorter path first",
                       "put 'strategy' before 'strategy.bucket_mb'"));
}

TEST(Sweep, TooManyPointsAreRefused) {
  std::string text = "sweep:\n";
  for (char key = 'a'; key < 'f'; ++key)
    text.append("  ").append(1, key).append(": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
  EXPECT_EQ(sweep_error(text),
            message_of("the sweep has too many points", "a.yaml:2:3", "100000 or more",
                       "at most 10000", "sweep over fewer keys"));
}

TEST(Sweep, TooManyKeysAreRefused) {
  std::string text = "sweep:\n";
  for (int key = 0; key <= 100; ++key) text += "  k" + std::to_string(key) + ": [0]\n";
  EXPECT_EQ(sweep_error(text), message_of("the sweep has too many keys", "a.yaml:2:3", "101",
                                          "at most 100", "a key with one value needs no sweep"));
}

TEST(Sweep, LabelsAreShortAndPrintable) {
  const auto label = labels("sweep: {a: [\"\\e[31m\", " + std::string(5'000, 'x') + "]}");
  EXPECT_EQ(label[0], "a=\\x1b[31m");
  EXPECT_LT(label[1].size(), 210U);
}

TEST(Sweep, AnOverrideThatItWouldHideIsRefused) {
  ConfigNode root = parse_yaml("strategy: naive\nsweep:\n  strategy: [flat, bucketed]\n", "a.yaml");
  apply_override(root, "strategy.bucket_mb=5");
  EXPECT_EQ(
      test::error_of<ConfigError>([&] { test::points_of(root); }),
      message_of("an override has no effect: the sweep replaces it", "--set strategy.bucket_mb=5",
                 "sweep over 'strategy' at a.yaml:3:3", "an override of a key that is not swept",
                 "override the sweep: --set 'sweep.strategy=[...]', or drop it: --set 'sweep={}'"));
}

}  // namespace
}  // namespace ddprun
