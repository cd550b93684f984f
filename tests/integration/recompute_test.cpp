// model.recompute as a user meets it: swept with mappings, proved on two ranks, refused in words.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "support/ddprun_command.h"
#include "support/matchers.h"

namespace ddprun::test {
namespace {

const char* const kSweep =
    "sweep:\n"
    "  strategy: [naive, {name: bucketed, bucket_mb: 0.01}, torch_ddp]\n"
    "  model.recompute: [none, every_block, {groups: 2}, {every: 1, keep_last: 1}, recursive]\n"
    "report: {baseline: {model.recompute: none}}\n";

TEST(Recompute, ASweepOverStrategiesIsProvedAndHasTheParametersOfNone) {
  TemporaryFolder folder("again.yaml", tiny_experiment(kSweep));
  const CommandResult run =
      must_run(folder, {"again.yaml", "--set", "model.layers=4", "--set", "train.accumulate=2"});
  EXPECT_THAT(run.out, HasSubstr("proved in 15 of 15 rows"));
  const json rows = result_of(folder, "again")["rows"];
  ASSERT_EQ(rows.size(), 15u);
  for (std::size_t strategy = 0; strategy < 3; ++strategy) {
    std::set<std::string> hashes;
    for (std::size_t form = 0; form < 5; ++form) {
      hashes.insert(rows[5 * strategy + form]["ranks"][0]["parameter_hash"].dump());
    }
    EXPECT_EQ(hashes.size(), 1u) << "strategy " << strategy;
  }
  // What was resolved runs again as it is.
  folder.write("third.yaml", read_file(only_result(folder, "again") / "resolved" / "03.yaml"));
  EXPECT_THAT(folder.read("third.yaml"), HasSubstr("groups: 2"));
  EXPECT_EQ(run_ddprun(folder, {"validate", "third.yaml"}).status, 0);
}

TEST(Recompute, IsSetFromTheCommandLineAndVerified) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  must_run(folder,
           {"one.yaml", "--set", "model.recompute=every_block", "--set", "attention=flash"});
  must_run(folder, {"verify", "one.yaml", "--set", "model.recompute={groups: 1}"});
}

TEST(Recompute, IsRefusedBeforeAnyRankStarts) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const auto refusal = [&](const std::string& value) {
    const CommandResult run = run_ddprun(folder, {"one.yaml", "--set", "model.recompute=" + value});
    EXPECT_EQ(run.status, 2) << value;
    return run.err;
  };
  EXPECT_THAT(refusal("{groups: 2}"),
              AllOf(HasSubstr("the model has 1 block, too few for 2 groups"),
                    HasSubstr("--set model.recompute={groups: 2}")));
  EXPECT_THAT(refusal("{groups: 0}"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("{every: 0}"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("all"), HasSubstr("'recompute' in model cannot be 'all'"));
  const CommandResult forward =
      run_ddprun(folder, {"one.yaml", "--set", "model.recompute=every_block", "--set",
                          "train.measure=forward", "--set", "world.size=1"});
  EXPECT_EQ(forward.status, 2);
  EXPECT_THAT(forward.err, HasSubstr("model.recompute has no effect with train.measure forward"));
}

}  // namespace
}  // namespace ddprun::test
