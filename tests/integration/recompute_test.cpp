// model.recompute as a user meets it: swept with mappings, proved on two ranks, refused in words.
#include <set>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

const char* const kSweep =
    "sweep:\n"
    "  strategy: [{name: bucketed, bucket_mb: 0.01}, torch_ddp]\n"
    "  model.recompute: [none, every_block, {groups: 2}, {every: 1, keep_last: 1}, recursive]\n"
    "report: {baseline: {model.recompute: none}}\n";

TEST(Recompute, ASweepOverStrategiesIsProvedAndHasTheParametersOfNone) {
  TemporaryFolder folder("again.yaml", tiny_experiment(kSweep));
  const CommandResult run =
      must_run(folder, {"again.yaml", "--set", "model.layers=4", "--set", "train.accumulate=2"});
  EXPECT_THAT(run.out, HasSubstr("proved in 10 of 10 rows"));
  const json rows = rows_of(folder, "again");
  ASSERT_EQ(rows.size(), 10u);
  for (std::size_t strategy = 0; strategy < 2; ++strategy) {
    std::set<std::string> hashes;
    for (std::size_t form = 0; form < 5; ++form) {
      hashes.insert(rows[5 * strategy + form]["ranks"][0]["parameter_hash"].dump());
    }
    EXPECT_EQ(hashes.size(), 1u) << "strategy " << strategy;
  }
  // What was resolved runs again as it is.
  folder.write("third.yaml", read_file(only_result(folder, "again") / "resolved" / "03.yaml"));
  EXPECT_THAT(folder.read("third.yaml"), HasSubstr("groups: 2"));
  must_run(folder, {"validate", "third.yaml"});
}

TEST(Recompute, IsSetFromTheCommandLineAndVerified) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  must_run(folder,
           {"one.yaml", "--set", "model.recompute=every_block", "--set", "attention=flash"});
  must_run(folder, {"verify", "one.yaml", "--set", "model.recompute={groups: 1}"});
}

}  // namespace
}  // namespace ddprun::test
