// Ranks of a joined launch that do not fit together, or do not come: each says so, in time, with
// the exit status that it means.
#include <grp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>

#include "ddprun/base/descriptor.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/store/store_client.h"
#include "ddprun/comm/store/store_protocol.h"
#include "ddprun/measure/environment.h"
#include "support/joined_launch.h"
#include "support/matchers.h"

namespace ddprun::test::joined_launch_test {
namespace {

TEST(JoinedLaunch, RanksOfDifferentExperimentsRefuseAll) {
  for (const std::string other : {"train.seed=7", "precision=bf16_mixed"}) {
    Launch launch(2);
    launch.start(0, {"one.yaml"});
    launch.start(1, {"one.yaml", "--set", other});
    launch.expect_all(2,
                      AllOf(HasSubstr("the ranks of this launch would run different experiments"),
                            HasSubstr(other.substr(0, other.find('='))), HasSubstr(" on rank 0; "),
                            HasSubstr(" on rank 1")));
  }
}

TEST(JoinedLaunch, RanksOfDifferentEnvironmentsRefuseAll) {
  Launch launch(2);
  launch.start(0, {"one.yaml"}, {"OMP_PLACES=cores"});
  launch.start(1, {"one.yaml"}, {"OMP_PLACES=threads", "DDPRUN_PRODUCTS=library"});
  launch.expect_all(
      2, AllOf(HasSubstr("environment variable DDPRUN_PRODUCTS = nothing on "
                         "rank 0; \"library\" on rank 1"),
               HasSubstr("ddprun and environment on every rank"), Not(HasSubstr("OMP_PLACES"))));
}

TEST(JoinedLaunch, IsStartedAgainByItsLauncherAlone) {
  Launch launch(2);
  launch.start(0, {"one.yaml", "--max-restarts=1"});
  launch.expect_all(2, HasSubstr("--max-restarts starts the ranks of a row itself"));
}

TEST(JoinedLaunch, RanksThatALauncherBoundKeepTheirCores) {
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  Launch launch(2);
  for (const int rank : {0, 1}) {
    launch.start(
        rank, {"one.yaml"}, {},
        {"/usr/bin/taskset", "-c", std::to_string(cores[static_cast<std::size_t>(1 - rank)])});
  }
  launch.expect_all(0, _, 60);
  const json result = result_of(launch.folder(0), "one");
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(result["rows"][0]["ranks"][rank]["cores"], std::vector<int>{cores[1 - rank]});
  }
}

TEST(JoinedLaunch, RankZeroSaysWhatIsTakenOver) {
  TemporaryFolder results;
  for (const char* expected : {"starting", "taken over"}) {
    Launch launch(2);
    DdprunProcess& first =
        launch.start(0, {"one.yaml", "--resume", "--output", results.path().string()});
    DdprunProcess& second = launch.start(1, {"one.yaml", "--resume"});  // which has no results
    launch.expect_all(0, _, 60);
    EXPECT_THAT(first.err(), HasSubstr(expected));
    EXPECT_THAT(second.err(), Not(HasSubstr(expected)));
  }
}

TEST(JoinedLaunch, ResumingIsOfAllRanks) {  // who resumes waits for what rank 0 decides
  Launch launch(2);
  launch.start(0, {"one.yaml"});
  launch.start(1, {"one.yaml", "--resume"});
  launch.expect_all(2, HasSubstr(R"(command = "run" on rank 0; "run --resume" on rank 1)"));
}

TEST(JoinedLaunch, ARankThatRefusesSaysSoAndTheOthersSayItToo) {
  Launch launches[] = {Launch(3), Launch(3)};  // one does not come at all: nobody waits for it
  DdprunProcess *others[2], *refusing[2];
  for (const int refuses : {0, 1}) {
    others[refuses] = &launches[refuses].start(1 - refuses, {"one.yaml", "--set", "world.size=3"});
    refusing[refuses] = &launches[refuses].start(refuses, {"one.yaml", "--set", "train.stesp=3"});
  }
  const auto begin = std::chrono::steady_clock::now();
  for (const int refuses : {0, 1}) {
    DdprunProcess& other = *others[refuses];
    EXPECT_EQ(other.wait(20), 2) << other.err();
    EXPECT_THAT(other.err(), AllOf(HasSubstr("error: rank " + std::to_string(refuses) +
                                             " refused its configuration"),
                                   HasSubstr("unknown key 'stesp' in train")));
    EXPECT_THAT(refusing[refuses]->err(), HasSubstr("error: unknown key 'stesp' in train"));
  }
  EXPECT_EQ(refusing[1]->wait(20), 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << "waited for the one that does not come";
}

TEST(JoinedLaunch, ASilentListenerAtThePortIsGivenUpInTime) {
  const auto [listener, port] = listen_on_free_port();
  Launch launch(2);
  launch.port = port;
  DdprunProcess& rank = launch.start(1, {"one.yaml", "--set", "world.timeout_s=1"});
  EXPECT_EQ(rank.wait(in_time(1)), 1) << rank.err();
  EXPECT_THAT(rank.err(), AllOf(HasSubstr("the store of this run does not answer"),
                                HasSubstr("no word of rank 0 within 1 s")));
}

TEST(JoinedLaunch, ARankThatDoesNotComeIsNamed) {
  Launch launch(2);
  DdprunProcess& rank = launch.start(0, {"one.yaml", "--set", "world.timeout_s=1"});
  EXPECT_EQ(rank.wait(in_time(1)), 1) << rank.err();
  EXPECT_THAT(rank.err(), HasSubstr("missing: rank 1"));
}

TEST(JoinedLaunch, ARankZeroThatIsStoppedIsGivenUpInTime) {
  Launch launch(2);
  const auto ranks = launch.start_all(
      with_sets({"one.yaml", "-v"}, {"world.timeout_s=2", "train.steps=10000000"}));
  ASSERT_TRUE(ranks[0]->says(": step ")) << ranks[0]->err() << ranks[1]->err();
  kill(ranks[0]->pid(), SIGSTOP);
  EXPECT_EQ(ranks[1]->wait(in_time(2)), 1) << ranks[1]->err();
  EXPECT_THAT(ranks[1]->err(), HasSubstr("rank 0"));
}

constexpr const char* kPlanted = "--plugin-path=" DDPRUN_BUILD_DIR "/tests/plugins/planted";

/// A launch of two ranks whose strategy has a fault on rank 1, from the second step on.
void expect_different_calls(const std::string& fault, const std::string& backend) {
  Launch launch(2);
  launch.start_all(with_sets({"one.yaml", kPlanted},
                             {"strategy={name: planted, rank: 1, first: 1, fault: " + fault + "}",
                              "world.backend=" + backend, "world.timeout_s=2"}));
  launch.expect_all(1,
                    AllOf(HasSubstr("the ranks called different collectives"),
                          HasSubstr("; rank 1: all_reduce '")),
                    in_time(2));
}

bool listens(int port) { return connection_to(port).get() >= 0; }

TEST(JoinedLaunch, ARankThatHangsInItsOwnWorkEndsByItself) {
  Launch launch(1);
  DdprunProcess& rank = launch.start(
      0, with_sets({"one.yaml", kPlanted}, {"strategy={name: planted, fault: hang, first: 1}",
                                            "world.progress_timeout_s=1.5", "world.size=1"}));
  EXPECT_EQ(rank.wait(60), 1) << rank.err();
  EXPECT_THAT(rank.err(), AllOf(HasSubstr("rank 0 failed: its own work does not get on"),
                                HasSubstr("in optimizer of step 1")));
}

TEST(JoinedLaunch, RanksThatWereToldDifferentSizesAllSaySo) {
  Launch two(2), three(3);
  three.port = two.port;
  two.start(0, {"one.yaml", "--set", "world.size=2"});
  three.start(1, {"one.yaml", "--set", "world.size=3"});
  for (Launch* launch : {&two, &three}) {
    launch->expect_all(2, HasSubstr("the ranks of this launch were told different numbers"));
  }
  Launch hosts(2);
  hosts.start(0, {"one.yaml"});
  hosts.start(1, {"one.yaml"}, {"LOCAL_WORLD_SIZE=1", "LOCAL_RANK=0"});
  hosts.expect_all(2, HasSubstr("2, all on one host, of"));
}

TEST(JoinedLaunch, ARankThatIsTakenIsSaidAtOnce) {
  Launch launch(2);
  DdprunProcess& first = launch.start(0, {"one.yaml"});
  ASSERT_TRUE(eventually(20, [&] { return listens(launch.port); })) << first.err();
  StoreClient client({"127.0.0.1", launch.port, "rank 1", "rank 0"}, std::chrono::seconds(5));
  client.compareSet("ddprun/seat/1", "", "process 7 of host elsewhere");
  DdprunProcess& second = launch.start(1, {"one.yaml"});
  EXPECT_EQ(second.wait(20), 1) << second.err();
  EXPECT_THAT(second.err(), AllOf(HasSubstr("another process has the rank of this one"),
                                  HasSubstr("process 7 of host elsewhere is rank 1")));
}

const Words kSecret = {"DDPRUN_SECRET=correct horse battery staple"};

/// A process of another user who has no rights, which does `what` and ends with what that returns,
/// or is killed with this object.
class Stranger {
 public:
  explicit Stranger(const std::function<int()>& what) {
    pid_ = fork();
    if (pid_ != 0) return;
    constexpr uid_t kNobody = 65533;
    if (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
        setresuid(kNobody, kNobody, kNobody) != 0) {
      _exit(99);
    }
    _exit(what());
  }
  ~Stranger() {
    if (!ended_) kill(pid_, SIGKILL);
    if (!ended_) waitpid(pid_, nullptr, 0);
  }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
  bool ended_ = false;
};

/// What an unauthorised client may send first: a greeting, then the decision that all plans agree.
std::string forged_decision() {
  const auto text = [](const std::string& words) {
    return bytes_in_memory<std::uint64_t>(words.size()) + words;
  };
  using store_protocol::Query;
  std::string bytes(1, static_cast<char>(Query::validate));
  bytes += bytes_in_memory(store_protocol::kMagic) + static_cast<char>(Query::set);
  return bytes + text("/ddprun/comparing experiments/decision") + text("agreed");
}

/// Sends it, and returns how many bytes come back before the connection is closed.
int answers_to(int port, const std::string& bytes) {
  const Descriptor end = connection_to(port);
  ssize_t n = ::send(end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  int answers = 0;
  for (char byte; n > 0 && (n = ::recv(end.get(), &byte, 1, 0)) > 0;) ++answers;
  return answers;
}

TEST(JoinedLaunch, AnotherUserGetsNothingWithoutTheSecret) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  Launch launch(2, kSecret);
  DdprunProcess& first = launch.start(0, {"one.yaml", "--set", "model.heads=4"});
  ASSERT_TRUE(eventually(20, [&] { return listens(launch.port); })) << first.err();
  Stranger stranger([port = launch.port] {
    const std::string random(64, 'x');
    const std::string prove(1, static_cast<char>(store_protocol::Query::prove));
    if (answers_to(port, forged_decision()) != 0) return 1;
    return answers_to(port, prove + random) == 64 ? 0 : 2;  // a random number, and a refusal
  });
  EXPECT_EQ(stranger.wait(), 0);
  // The other rank still decides: nobody has written that the two agree.
  launch.start(1, {"one.yaml", "--set", "model.heads=2"});
  launch.expect_all(2, HasSubstr("the ranks of this launch would run different experiments"));
}

TEST(JoinedLaunch, AFloodOfAnotherUserDisturbsNobody) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  Launch launch(2, kSecret);
  const Words words = {"one.yaml", "--set", "world.timeout_s=20"};
  DdprunProcess& first = launch.start(0, words);
  ASSERT_TRUE(eventually(20, [&] { return listens(launch.port); })) << first.err();
  const Stranger stranger([port = launch.port]() -> int {
    std::vector<Descriptor> ends(500);
    const std::string bytes = forged_decision() + std::string(100'000, '\0');
    for (std::size_t i = 0;; i = (i + 1) % ends.size()) {
      ends[i] = connection_to(port);
      if (i % 2 == 0) ::send(ends[i].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  });
  launch.start(1, words);
  launch.expect_all(0, _, 60);
}

TEST(JoinedLaunch, ARankWithoutTheSecretIsToldSo) {
  Launch with_secret(2, kSecret);
  with_secret.start(0, {"one.yaml"});
  Launch without(2);
  without.port = with_secret.port;
  DdprunProcess& second = without.start(1, {"one.yaml"});
  EXPECT_EQ(second.wait(20), 1) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("the store of this run asks for a secret"));
}

TEST(JoinedLaunch, WithoutASecretOneLineSaysWhoIsTrusted) {
  for (const bool secret : {false, true}) {
    Launch launch(2, secret ? kSecret : Words{});
    const auto ranks = launch.start_all({"one.yaml"});
    launch.expect_all(0, _, 60);
    EXPECT_NE(ranks[0]->has_said("its network is trusted"), secret);
    EXPECT_EQ(ranks[1]->err(), "");
  }
}

TEST(JoinedLaunch, ATextThatIsNotOursIsAnErrorAndNoException) {
  Launch launch(2);
  DdprunProcess& first = launch.start(0, {"one.yaml"});
  ASSERT_TRUE(eventually(20, [&] { return listens(launch.port); })) << first.err();
  StoreClient client({"127.0.0.1", launch.port, "stranger", "rank 0"}, std::chrono::seconds(5));
  client.compareSet("ddprun/comparing experiments/decision", "", "[1, 2]");
  EXPECT_EQ(first.wait(20), 1);
  EXPECT_THAT(first.err(),
              AllOf(HasSubstr("error: a text in the store of this run is not ddprun's"),
                    HasSubstr("where: rank 0 of 2, comparing experiments")));
}

// Ranks share the work of comparing the bytes of a folder that all see, and of no other.
TEST(JoinedLaunch, OfACheckpointThatEachRankHasACopyOfEachComparesAllBytes) {
  TemporaryFolder from;
  from.write("one.yaml", tiny_experiment());
  must_run(from, with_sets({"one.yaml"}, {"train.checkpoint={every: 2, path: saved}"}));
  const std::string copy = "cp -a " + (from.path() / "saved").string() + " .";
  const std::string damage =
      "; f=$(ls saved/step*/optimizer.safetensors | tail -n 1); printf x | dd of=$f bs=1 "
      "seek=$(($(stat -c %s $f) - 3)) conv=notrunc status=none";
  for (const bool damaged : {false, true}) {
    Launch launch(2);
    const Words words = with_sets({"one.yaml"}, {"train.resume_from=saved", "train.steps=20"});
    launch.start(0, words, {}, after(copy));
    launch.start(1, words, {}, after(copy + (damaged ? damage : "")));
    const std::string says = damaged ? "got: rank 1: optimizer.safetensors: " : "";
    launch.expect_all(damaged ? 1 : 0, HasSubstr(says), 60);
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
