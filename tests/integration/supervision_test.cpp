// Ranks that die, users that lose patience: what ddprun says, and that nothing stays behind.
#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <tuple>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

/// A run that would take hours; -v makes it say when it trains.
class Supervision : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("long.yaml", tiny_experiment({}, 10'000'000));
    process_.emplace(folder_, std::vector<std::string>{"long.yaml", "-v"});
    ASSERT_TRUE(process_->trains(2)) << process_->err();
  }
  void expect_nothing_left() {
    EXPECT_TRUE(eventually(5, [this] { return process_->ranks().empty(); }));
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "results"));
  }
  TemporaryFolder folder_;
  std::optional<DdprunProcess> process_;
};

/// The inodes of all sockets here that listen for TCP.
std::set<std::string> listening_sockets() {
  std::set<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    for (const std::string& line : lines_of(read_file(table))) {
      std::istringstream fields(line);
      std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
      constexpr std::size_t kState = 3, kInode = 9;
      if (words.size() > kInode && words[kState] == "0A") found.insert(words[kInode]);
    }
  }
  return found;
}

TEST_F(Supervision, NobodyCanConnectToRanksThatMeetInMemory) {
  std::vector<pid_t> processes = process_->ranks();
  processes.push_back(process_->pid());
  const std::set<std::string> listening = listening_sockets();
  for (const pid_t pid : processes) {
    const auto folder = std::filesystem::path("/proc") / std::to_string(pid) / "fd";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry, gone);  // "socket:[123]"
      if (!target.starts_with("socket:[")) continue;
      EXPECT_FALSE(listening.contains(target.substr(8, target.size() - 9))) << "process " << pid;
    }
  }
}

TEST(RanksThatHang, AllInTheirOwnWorkAreEnded) {
  for (const char* const ranks : {"1", "2"}) {
    TemporaryFolder folder("hang.yaml", tiny_experiment());
    const CommandResult run =
        must_end(1, folder,
                 {"hang.yaml", "--plugin-path", DDPRUN_BUILD_DIR "/tests/plugins/planted", "--set",
                  "strategy={name: planted, fault: hang, first: 1}", "--set",
                  std::string("world.size=") + ranks, "--set", "world.progress_timeout_s=1.5"});
    EXPECT_THAT(run.err, AllOf(HasSubstr("rank 0 failed: its own work does not get on"),
                               HasSubstr(" of step 1 for ")));
  }
}

TEST_F(Supervision, ARankKilledIsNamedWithItsSignal) {
  const std::vector<pid_t> ranks = process_->ranks();
  kill(ranks.back(), SIGKILL);  // the later pid: rank 1
  EXPECT_EQ(process_->wait(10), 1) << process_->err();
  EXPECT_THAT(process_->err(), HasSubstr("rank 1 failed: killed by signal 9 (Killed)"));
  EXPECT_THAT(process_->out(), HasSubstr("failed: rank 1 failed: killed by signal 9"));
  EXPECT_TRUE(eventually(5, [this] { return process_->ranks().empty(); }));
  EXPECT_THAT(read_file(only_result(folder_, "long") / "result.json"),
              HasSubstr("killed by signal 9"));
}

TEST_F(Supervision, AStoppedPeerOfADeadRankIsEndedToo) {
  const std::vector<pid_t> ranks = process_->ranks();
  kill(ranks.front(), SIGSTOP);  // deaf to SIGTERM
  kill(ranks.back(), SIGSEGV);
  EXPECT_EQ(process_->wait(10), 1) << process_->err();
  EXPECT_THAT(process_->err(), HasSubstr("rank 1 failed: killed by signal 11"));
  EXPECT_TRUE(eventually(5, [this] { return process_->ranks().empty(); }));
}

TEST_F(Supervision, CtrlCEndsAllWithoutAResult) {
  kill(-process_->pid(), SIGINT);  // the terminal sends it to the whole group
  EXPECT_EQ(process_->wait(10), 130) << process_->err();
  EXPECT_THAT(process_->err(), HasSubstr("interrupted (signal 2): no result of long was written"));
  expect_nothing_left();
}

TEST(Interrupted, LiveOutputsAreWhatWasDone) {
  TemporaryFolder folder("one.yaml", tiny_experiment("output: {jsonl: true}\n", 10'000'000));
  DdprunProcess process(folder, {"one.yaml", "-v"});
  ASSERT_TRUE(process.trains(2)) << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(10), 130) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("what was done is in results/one/"));
  EXPECT_TRUE(std::filesystem::exists(only_result(folder, "one") / "live/01/steps.jsonl"));
}

TEST(Interrupted, RowsThatWereDoneAreWritten) {
  TemporaryFolder folder("two.yaml", tiny_experiment("sweep: {train.steps: [3, 10000000, 5]}\n"));
  DdprunProcess process(folder, {"two.yaml", "-v"});
  ASSERT_TRUE(process.says("[2/3] 10000000: step")) << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(10), 130) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("interrupted (signal 2): what was done is in results/two/"));
  EXPECT_THAT(process.err(), HasSubstr("/, and --resume goes on from there\n"));
  const std::string result = read_file(only_result(folder, "two") / "result.json");
  EXPECT_THAT(result, AllOf(HasSubstr("\"status\":\"ok\""), HasSubstr("\"status\":\"not run\""),
                            HasSubstr("interrupted by signal 2"),
                            HasSubstr("the batch was interrupted before")));
}

TEST_F(Supervision, SigtermAndHangUpEndAllToo) {
  kill(process_->pid(), SIGHUP);
  EXPECT_EQ(process_->wait(10), 128 + SIGHUP) << process_->err();
  expect_nothing_left();
}

TEST_F(Supervision, RanksDieWithAKilledParent) {
  kill(process_->pid(), SIGKILL);
  EXPECT_EQ(process_->wait(10), 1000 + SIGKILL);
  expect_nothing_left();
}

/// What a run of two ranks says if one is stopped as soon as it is there, or later when it trains.
class Stopped : public testing::TestWithParam<std::tuple<const char*, int, bool>> {};
std::string stopped_name(const testing::TestParamInfo<Stopped::ParamType>& info) {
  const auto& [backend, rank, trains] = info.param;
  return std::string(backend) + "Rank" + std::to_string(rank) + (trains ? "Trains" : "Starts");
}
INSTANTIATE_TEST_SUITE_P(Ranks, Stopped,
                         testing::Combine(testing::Values("gloo", "shm"), testing::Values(0, 1),
                                          testing::Bool()),
                         stopped_name);

TEST_P(Stopped, IsNamedAndEndedInTime) {
  const auto& [backend, rank, trains] = GetParam();
  const TemporaryFolder folder("long.yaml", tiny_experiment({}, 10'000'000));
  DdprunProcess process(folder, {"long.yaml", "-v", "--set", "world.timeout_s=2", "--set",
                                 std::string("world.backend=") + backend});
  const std::size_t at = rank;
  if (trains) {
    ASSERT_TRUE(process.trains(2)) << process.err();
  } else {
    // Before that, a child tries the plugin libraries.
    const auto starts = [&] {
      return process.has_said("starting 2 ranks") && process.ranks().size() > at;
    };
    ASSERT_TRUE(eventually(30, starts)) << process.err();
  }
  std::vector<pid_t> ranks = process.ranks();
  std::sort(ranks.begin(), ranks.end());
  kill(ranks[at], SIGSTOP);
  EXPECT_EQ(process.wait(in_time(2)), 1) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("rank " + std::to_string(rank) +
                                       " failed: stopped by signal 19 (Stopped (signal))"));
  EXPECT_TRUE(eventually(5, [&] { return process.ranks().empty(); }));
}

}  // namespace
}  // namespace ddprun::test
