// ddprun tune from outside: what wins, what it writes, what it refuses.
#include <signal.h>

#include "support/ddprun_command.h"

namespace ddprun::tune_test {
namespace {

using namespace test;

constexpr const char* kSlow = "{name: slow, sleep_ms: 40}";

class Tune : public testing::Test {
 protected:
  Tune() { folder_.write("e.yaml", tiny_experiment("", 10)); }

  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> out = {"tune", "e.yaml", "--plugin-path",
                                    DDPRUN_BUILD_DIR "/tests/plugins/slow"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  json found() const { return json::parse(read_file(only_result(folder_, "e") / "tune.json")); }
  std::string tuned() const { return (only_result(folder_, "e") / "tuned.yaml").string(); }

  static json candidate(const json& all, const std::string& label) {
    for (const json& each : all.at("candidates")) {
      if (each.at("label").get<std::string>().find(label) != std::string::npos) return each;
    }
    throw std::runtime_error("no candidate " + label);
  }

  TemporaryFolder folder_;
};

TEST_F(Tune, ASlowStrategyLosesAndTheTunedFileSaysAnother) {
  const std::string strategy = std::string("strategy=") + kSlow;
  const CommandResult run =
      must_run(folder_, words({"--set", strategy, "--over", "strategy=slow|flat|none|powersgd"}));
  EXPECT_THAT(run.out,
              AllOf(ContainsRegex("round [12]: 2 candidates, runs of [0-9]+ steps; 1 left"),
                    HasSubstr("flat saves "), HasSubstr("recommended"),
                    HasSubstr("left out: none: "), HasSubstr("left out: powersgd: ")));
  const json all = found();
  EXPECT_EQ(all.at("winner"), "strategy=flat");
  EXPECT_EQ(candidate(all, "slow").at("standing"), "slower");
  EXPECT_TRUE(candidate(all, "slow").at("reference").get<bool>());
  EXPECT_LT(candidate(all, "flat").at("comparison").at("ratio").get<double>(), 0.5);
  EXPECT_GE(candidate(all, "flat").at("runs").size(), 3U);
  const std::string text = read_file(tuned());
  EXPECT_THAT(text, ContainsRegex("\n# by (1 round|[2-9] rounds) of real runs, "));
  EXPECT_THAT(text, AllOf(HasSubstr("# measured on "), HasSubstr("strategy: flat\n"),
                          HasSubstr("steps: 10"), Not(HasSubstr("slow\n"))));
  must_run(folder_, {"validate", tuned()});
}

TEST_F(Tune, TheTableSurvivesAResultThatCannotBeWritten) {
  const CommandResult run =
      must_end(1, folder_, words({"--set", "world.backend=gloo", "--over", "strategy=flat|naive"}),
               after("ulimit -f 2"));
  EXPECT_THAT(run.err, HasSubstr("cannot write a result"));
  EXPECT_THAT(run.out, HasSubstr("the file's own setting"));
}

TEST_F(Tune, WhatIsFastestStays) {
  EXPECT_THAT(must_run(folder_, words({"--over", std::string("strategy=flat|") + kSlow})).out,
              HasSubstr("nothing is faster than what the file says: flat"));
  EXPECT_THAT(read_file(tuned()), HasSubstr("strategy: flat\n"));
}

/// Its relative paths hold from the result folder, too, and nothing that the sweep needed is left.
TEST_F(Tune, ASweepIsTunedAndItsDataIsFound) {
  folder_.write("text.txt", std::string(5000, 'a'));
  folder_.write("held.txt", std::string(5000, 'b'));
  folder_.write("e.yaml", tiny_experiment("report: {repeats: 2, baseline: {strategy: flat}}\n"
                                          "sweep: {strategy: [flat, naive]}\n",
                                          10));
  const CommandResult run =
      must_run(folder_, words({"--set", "data={source: text, path: text.txt}", "--set",
                               "train.eval={every: 5, path: held.txt}", "--over", "strategy",
                               "--format", "json", "--minutes", "0.1"}));
  const json printed = json::parse(run.out);
  EXPECT_EQ(printed.at("winner"), found().at("winner"));
  EXPECT_TRUE(candidate(printed, "flat").at("reference").get<bool>());
  must_run(folder_, {tuned(), "--output", "again"});
}

TEST_F(Tune, BatchAndArithmeticStay) {
  must_run(folder_, words({"--over", "train.accumulate,model.recompute", "--minutes", "0.1"}));
  const json all = found();
  EXPECT_EQ(all.at("candidates").size(), 4U) << "a batch of 2 a rank has no four micro-batches";
  EXPECT_EQ(all.at("left_out").size(), 2U);
}

TEST_F(Tune, CtrlCEndsWithWhatIsKnown) {
  DdprunProcess process(folder_, words({"-v", "--set", "strategy={name: slow, sleep_ms: 50}",
                                        "--over", "strategy.sleep_ms=50|51"}));
  // The first run is over, and five follow.
  ASSERT_TRUE(process.says("[2/2] ")) << process.out() << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 128 + SIGINT) << process.out() << process.err();
  EXPECT_TRUE(process.ranks().empty());
  EXPECT_THAT(process.out(), HasSubstr("results: "));
  EXPECT_THAT(process.err(), HasSubstr("interrupted (signal 2): what was done is in results/"));
  EXPECT_EQ(found().at("end"), "interrupted");
  must_run(folder_, {"validate", tuned(), "--plugin-path", DDPRUN_BUILD_DIR "/tests/plugins/slow"});
}

TEST_F(Tune, RefusesWhatItCannotTune) {
  const auto refused = [&](std::vector<std::string> more, const std::string& why) {
    EXPECT_THAT(refusal_of(folder_, words(more)), AllOf(HasSubstr(why), HasSubstr("  hint: ")));
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "results"));
  };
  refused({"--over", "model.d_ff=64|128"}, "the key changes what is trained");
  refused({"--over", "strategie"}, "did you mean 'strategy'?");
  refused({"--over", "strategy=flat|none"}, "there is nothing to tune");
  refused({"--set", "sweep.strategy=[flat, naive]"}, "the file has several experiments");
  refused({"--set", "sweep={strategy: [flat, naive], train.seed: [1, 2]}", "--over", "strategy"},
          "a sweep over train.seed");
  DdprunProcess joined(
      folder_, words({}),
      {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=localhost", "MASTER_PORT=1", "LOCAL_RANK=0"});
  EXPECT_EQ(joined.wait(), 2);
  EXPECT_THAT(joined.err(), HasSubstr("tune starts the ranks of each candidate itself"));
  folder_.write(
      "e.yaml",
      "experiment: collectives\ncollectives: {bytes: 1000}\nworld: {size: 2, backend: gloo}\n");
  refused({}, "only an experiment that trains can be tuned");
}

}  // namespace
}  // namespace ddprun::tune_test
