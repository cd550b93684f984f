// Ranks of a joined launch that do not fit together, or do not come: each says so, in time, with
// the exit status that it means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "ddprun/base/descriptor.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/measure/environment.h"
#include "support/ddprun_command.h"

namespace ddprun::test::joined_launch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

/// A launch of `size` ranks at one port, of which those that are started have a folder each.
class Launch {
 public:
  explicit Launch(int size) : size_(size) {
    const auto [fd, port] = listen_on_free_port();
    listener_ = Descriptor(fd);
    port_ = port;
  }
  /// Until then something else listens at the port and says nothing.
  void free_port() { listener_ = Descriptor(); }
  /// `launcher`: a program and its arguments, which starts the rank.
  DdprunProcess& start(int rank, const Words& words, const Words& variables = {},
                       const Words& launcher = {}) {
    folders_.push_back(std::make_unique<TemporaryFolder>());
    folders_.back()->write("one.yaml", tiny_experiment());
    const std::string ranks = std::to_string(size_);
    const std::string own = std::to_string(rank);
    Words environment = {"RANK=" + own,           "LOCAL_RANK=" + own,
                         "WORLD_SIZE=" + ranks,   "LOCAL_WORLD_SIZE=" + ranks,
                         "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port_)};
    environment.insert(environment.end(), variables.begin(), variables.end());
    processes_.push_back(
        std::make_unique<DdprunProcess>(*folders_.back(), words, environment, launcher));
    return *processes_.back();
  }

 private:
  int size_;
  int port_ = 0;
  Descriptor listener_;
  std::vector<std::unique_ptr<TemporaryFolder>> folders_;
  std::vector<std::unique_ptr<DdprunProcess>> processes_;
};

TEST(JoinedLaunch, RanksOfDifferentExperimentsRefuseAll) {
  for (const std::string& other :
       {std::string("train.batch_per_rank=4"), std::string("precision=bf16_mixed"),
        std::string("model.heads=4"), std::string("train.accumulate=2"),
        std::string("train.seed=7")}) {
    Launch launch(2);
    launch.free_port();
    DdprunProcess& first = launch.start(0, {"one.yaml"});
    DdprunProcess& second = launch.start(1, {"one.yaml", "--set", other});
    const std::string key = other.substr(0, other.find('='));
    for (DdprunProcess* rank : {&first, &second}) {
      EXPECT_EQ(rank->wait(20), 2) << rank->err();
      EXPECT_THAT(rank->err(),
                  AllOf(HasSubstr("the ranks of this launch would run different experiments"),
                        HasSubstr(key), HasSubstr(" on rank 0; "), HasSubstr(" on rank 1")));
    }
  }
}

TEST(JoinedLaunch, RanksOfDifferentEnvironmentsRefuseAll) {
  Launch launch(2);
  launch.free_port();
  DdprunProcess& first = launch.start(0, {"one.yaml"}, {"OMP_PLACES=cores"});
  DdprunProcess& second =
      launch.start(1, {"one.yaml"}, {"OMP_PLACES=threads", "DDPRUN_PRODUCTS=library"});
  for (DdprunProcess* rank : {&first, &second}) {
    EXPECT_EQ(rank->wait(20), 2) << rank->err();
    EXPECT_THAT(rank->err(), AllOf(HasSubstr("environment variable DDPRUN_PRODUCTS = nothing on "
                                             "rank 0; \"library\" on rank 1"),
                                   HasSubstr("ddprun and environment on every rank"),
                                   Not(HasSubstr("OMP_PLACES"))));
  }
}

TEST(JoinedLaunch, RanksThatALauncherBoundKeepTheirCores) {
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  TemporaryFolder results;
  Launch launch(2);
  launch.free_port();
  std::vector<DdprunProcess*> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(&launch.start(
        rank, {"one.yaml", "--output", results.path().string()}, {},
        {"/usr/bin/taskset", "-c", std::to_string(cores[static_cast<std::size_t>(1 - rank)])}));
  }
  for (DdprunProcess* rank : ranks) EXPECT_EQ(rank->wait(60), 0) << rank->err();
  const auto result =
      nlohmann::json::parse(read_file(results.path() / "one" / "latest" / "result.json"));
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(result["rows"][0]["ranks"][rank]["cores"], std::vector<int>{cores[1 - rank]});
  }
}

TEST(JoinedLaunch, RankZeroSaysWhatIsTakenOver) {
  TemporaryFolder results;
  for (const char* expected : {"starting", "taken over"}) {
    Launch launch(2);
    launch.free_port();
    const Words words = {"one.yaml", "--resume"};
    DdprunProcess& first =
        launch.start(0, {"one.yaml", "--resume", "--output", results.path().string()});
    DdprunProcess& second = launch.start(1, words);  // which has no results
    EXPECT_EQ(second.wait(60), 0) << second.err();
    EXPECT_EQ(first.wait(60), 0) << first.err();
    EXPECT_THAT(first.err(), HasSubstr(expected));
    EXPECT_THAT(second.err(), Not(HasSubstr(expected)));
  }
}

TEST(JoinedLaunch, ARankThatRefusesSaysSoAndTheOthersSayItToo) {
  for (const int refuses : {0, 1}) {
    Launch launch(3);  // one does not come at all: nobody waits for it
    launch.free_port();
    DdprunProcess& other = launch.start(1 - refuses, {"one.yaml", "--set", "world.size=3"});
    DdprunProcess& refusing = launch.start(refuses, {"one.yaml", "--set", "train.stesp=3"});
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(other.wait(20), 2) << other.err();
    EXPECT_THAT(other.err(), AllOf(HasSubstr("error: rank " + std::to_string(refuses) +
                                             " refused its configuration"),
                                   HasSubstr("unknown key 'stesp' in train")));
    EXPECT_THAT(refusing.err(), HasSubstr("error: unknown key 'stesp' in train"));
    if (refuses == 1) {
      EXPECT_EQ(refusing.wait(20), 2);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
}

TEST(JoinedLaunch, ASilentListenerAtThePortIsGivenUpInTime) {
  Launch launch(2);
  DdprunProcess& rank = launch.start(1, {"one.yaml", "--set", "world.timeout_s=1"});
  EXPECT_EQ(rank.wait(1 + 5), 1) << rank.err();
  EXPECT_THAT(rank.err(), AllOf(HasSubstr("the store of this run does not answer"),
                                HasSubstr("no word of rank 0 within 1 s")));
}

TEST(JoinedLaunch, ARankThatDoesNotComeIsNamed) {
  Launch launch(2);
  launch.free_port();
  DdprunProcess& rank = launch.start(0, {"one.yaml", "--set", "world.timeout_s=1"});
  EXPECT_EQ(rank.wait(1 + 5), 1) << rank.err();
  EXPECT_THAT(rank.err(), HasSubstr("missing: rank 1"));
}

TEST(JoinedLaunch, ARankZeroThatIsStoppedIsGivenUpInTime) {
  Launch launch(2);
  launch.free_port();
  const Words words = {"one.yaml",          "-v",    "--set",
                       "world.timeout_s=2", "--set", "train.steps=10000000"};
  DdprunProcess& first = launch.start(0, words);
  DdprunProcess& second = launch.start(1, words);
  ASSERT_TRUE(eventually(30, [&] { return first.err().find(": step ") != std::string::npos; }))
      << first.err() << second.err();
  kill(first.pid(), SIGSTOP);
  EXPECT_EQ(second.wait(2 + 5), 1) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("rank 0"));
}

/// A launch of two ranks whose strategy has a fault on rank 1, from the second step on.
void expect_different_calls(const std::string& fault, const std::string& backend) {
  Launch launch(2);
  launch.free_port();
  const Words words = {"one.yaml",
                       "--plugin-path",
                       DDPRUN_BUILD_DIR "/tests/plugins/planted",
                       "--set",
                       "strategy={name: planted, rank: 1, first: 1, fault: " + fault + "}",
                       "--set",
                       "world.backend=" + backend,
                       "--set",
                       "world.timeout_s=2"};
  DdprunProcess& first = launch.start(0, words);
  DdprunProcess& second = launch.start(1, words);
  for (DdprunProcess* rank : {&first, &second}) {
    EXPECT_EQ(rank->wait(2 * (2 + 5)), 1) << rank->err();
    EXPECT_THAT(rank->err(), AllOf(HasSubstr("the ranks called different collectives"),
                                   HasSubstr("; rank 1: all_reduce '")));
  }
}

TEST(JoinedLaunch, AMissingCollectiveIsNamed) {
  expect_different_calls("fewer_collectives", "gloo");
  expect_different_calls("fewer_collectives", "shm");
}

TEST(JoinedLaunch, ACollectiveOfAnotherSizeIsNamed) {
  expect_different_calls("shorter_collective", "gloo");
  expect_different_calls("shorter_collective", "shm");
}

}  // namespace
}  // namespace ddprun::test::joined_launch_test
