// Four ranks on two hosts, which are two network namespaces with a cable between them, launched as
// torchrun launches.
#include <chrono>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

TEST(TwoHosts, ProveTheirStepsOverEveryBackend) {
  TemporaryFolder folder(
      "hosts.yaml", tiny_experiment("sweep: {world.backend: [hierarchical, auto, gloo], strategy: "
                                    "[bucketed, torch_ddp]}\n"));
  const CommandResult run =
      run_ddprun(folder, {"hosts.yaml", "--set", "world.size=4"}, two_hosts(2));
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 0) << run.out << run.err;
  const json result = result_of(folder, "hosts");
  ASSERT_EQ(result["rows"].size(), 6U);
  std::map<std::string, int> rows;
  for (const auto& row : result["rows"]) {
    EXPECT_EQ(row["status"], "ok");
    EXPECT_EQ(row["proof"]["status"], "passed");
    ASSERT_EQ(row["ranks"].size(), 4U);
    for (const auto& rank : row["ranks"]) EXPECT_EQ(rank["backend"], row["ranks"][0]["backend"]);
    ++rows[row["ranks"][0]["backend"]];
  }
  EXPECT_EQ(rows["hierarchical (asked for)"], 2);
  EXPECT_EQ(rows["hierarchical (auto: 2 hosts of 2 ranks each)"], 2);
  EXPECT_EQ(rows["gloo (asked for)"], 2);
}

TEST(TwoHosts, ShardWithinAHostAndReplicateBetween) {
  TemporaryFolder folder("hybrid.yaml",
                         tiny_experiment("sweep: {world.backend: [hierarchical, gloo]}\n"));
  const CommandResult run = run_ddprun(
      folder, {"hybrid.yaml", "--set", "world.size=6", "--set", "strategy=hsdp"}, two_hosts(3));
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 0) << run.out << run.err;
  const json result = result_of(folder, "hybrid");
  ASSERT_EQ(result["rows"].size(), 2U);
  for (const auto& row : result["rows"]) {
    EXPECT_EQ(row["proof"]["status"], "passed");
    const json& collectives = row["ranks"][0]["timeline"].back()["collectives"];
    ASSERT_FALSE(collectives.empty());
    for (const auto& record : collectives) {
      const bool between = record["kind"] == "all_reduce";
      EXPECT_EQ(record["ranks"], between ? 2 : 3) << record;
    }
  }
}

TEST(TwoHosts, OneRankOnEachIsRefusedInWords) {
  TemporaryFolder folder("hosts.yaml", tiny_experiment());
  const CommandResult run =
      run_ddprun(folder, {"hosts.yaml", "--set", "world.backend=hierarchical"}, two_hosts(1));
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.out + run.err,
              HasSubstr("backend hierarchical needs several ranks on each host"));
}

// Of a network beside the one of the store, which takes packets and brings none.
TEST(TwoHosts, BetweenWhichAFirewallStandsEndInTime) {
  TemporaryFolder folder("wall.yaml", tiny_experiment());
  const std::string wall =
      "ip link add in0 type veth peer name out0 && ip link set in0 up && ip link set out0 up && "
      "ip address add 10.99.0.$((GROUP_RANK + 1))/24 dev in0 && "
      "ip neigh add 10.99.0.$((2 - GROUP_RANK)) lladdr 02:00:00:00:00:01 dev in0 nud permanent";
  Words launcher = two_hosts(1);
  for (const std::string& word : after(wall)) launcher.push_back(word);
  const auto begin = std::chrono::steady_clock::now();
  const CommandResult run = run_ddprun(
      folder,
      {"wall.yaml", "--set", "world={size: 2, timeout_s: 5, backend: gloo, interface: in0}"},
      launcher);
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("gloo could not connect this rank to the others"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), in_time(5));
}

// Nothing tells either host: no process ends, no connection is reset, packets only stay away.
TEST(TwoHosts, WhoseCableIsCutBothSayWhoIsMissingAndEnd) {
  TemporaryFolder folder("cut.yaml", tiny_experiment("output: {prometheus: first_step.prom}\n",
                                                     /*steps=*/1'000'000));
  const auto launcher = two_hosts(2, {"--cut-at", folder.path() / "first_step.prom"});
  const auto begin = std::chrono::steady_clock::now();
  const CommandResult run = run_ddprun(
      folder, {"cut.yaml", "--set", "world={size: 4, timeout_s: 3, backend: hierarchical}"},
      launcher);
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), in_time(15));
  EXPECT_EQ(run.status, 1);
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_THAT(run.err, HasSubstr(rank + std::string(" failed: a collective failed")));
  }
  EXPECT_THAT(run.err, HasSubstr("missing: rank 2, 3"));
  EXPECT_THAT(run.err, HasSubstr("the network to it is cut"));
  EXPECT_EQ(rows_of(folder, "cut")[0]["status"], "failed");
}

}  // namespace
}  // namespace ddprun::test
