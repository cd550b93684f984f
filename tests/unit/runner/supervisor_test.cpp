// The supervisor with ranks that do nothing but fail in every way.
#include "runner/launch/supervisor.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <new>
#include <thread>
#include <type_traits>

#include "ddprun/comm/store/comm_failure.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

/// Much less than a rank sleeps that is not ended, and what a busy machine may take.
constexpr std::chrono::seconds kInTime(30);

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

struct Seen {
  std::vector<std::string> log;
  std::vector<Progress> progress;
};

struct Watching {
  double timeout_s = 60;
  double progress_timeout_s = 600;
  Seen* seen = nullptr;
};

/// Ranks whose body gives a result, or nothing. It must not wait for what they sleep.
template <class Body>
Outcome supervise(int ranks, const Watching& watching, const Body& body) {
  const auto begin = Clock::now();
  SignalWatch signals;
  Seen unasked;
  Seen& seen = watching.seen == nullptr ? unasked : *watching.seen;
  const RankObserver observer{[&](const Progress& p) { seen.progress.push_back(p); },
                              [&](int rank, const std::string& level, const std::string& text) {
                                seen.log.push_back(std::to_string(rank) + " " + level + " " + text);
                              }};
  const RankBody rank_body = [&](const RankInfo& info, const auto& on_progress) -> nlohmann::json {
    on_progress({1, 2, "loss of rank " + std::to_string(info.rank)});
    if constexpr (std::is_void_v<std::invoke_result_t<Body, int>>) {
      return body(info.rank), nullptr;
    } else {
      return body(info.rank);
    }
  };
  WorldConfig world;
  world.size = ranks;
  world.comm.timeout_s = watching.timeout_s;
  world.progress_timeout_s = watching.progress_timeout_s;
  Outcome outcome = run_ranks(world, rank_body, signals, observer);
  EXPECT_LT(Clock::now() - begin, kInTime);
  return outcome;
}

template <class Body>
Outcome supervise(int ranks, const Body& body) {
  return supervise(ranks, {}, body);
}

TEST(Supervisor, ReturnsTheResultOfRankZero) {
  Seen seen;
  const std::string large(3'000'000, 'x');  // many times the pipe's buffer
  const Outcome outcome = supervise(3, {.seen = &seen}, [&](int rank) -> nlohmann::json {
    if (rank == 1) spdlog::error("a word");
    return {{"rank", rank}, {"text", large}};
  });
  ASSERT_EQ(outcome.status, Outcome::Status::ok) << outcome.reason;
  EXPECT_EQ(outcome.result["rank"], 0);
  EXPECT_EQ(outcome.result["text"], large);
  EXPECT_THAT(seen.log, ElementsAre("1 error a word"));
  ASSERT_EQ(seen.progress.size(), 1u);  // of rank 0 only
  EXPECT_EQ(seen.progress[0].figures, "loss of rank 0");
}

TEST(Supervisor, APeersOwnCauseIsPreferredToTheCommErrorsItCauses) {
  const Outcome outcome = supervise(3, [](int rank) {
    if (rank != 2) throw CommError({.what = "a peer is gone"});
    sleep_ms(100);
    throw std::runtime_error("the cause, in process " + std::to_string(getpid()));
  });
  EXPECT_EQ(outcome.status, Outcome::Status::failed);
  const std::size_t at = outcome.reason.find("process ");
  const std::string process = outcome.reason.substr(at, outcome.reason.find('\n') - at);
  EXPECT_THAT(
      outcome.reason,
      AllOf(StartsWith("rank 2 failed: the cause, in " + process + "\n  where: rank 2 of 3, " +
                       process + "\n  got: the cause, in " + process + "\n"),
            EndsWith("\n  expected: no exception but ddprun's own\n  hint: these are the "
                     "words of LibTorch, of the system or of a plugin")));
}

// A rank that unwinds closes its connections, and only then says why.
TEST(Supervisor, ACommErrorOfItsOwnIsPreferredToTheLossesThatItCauses) {
  const Outcome outcome = supervise(3, [](int rank) {
    if (rank != 2) throw PeerGoneError({.what = "the store of this run was lost"});
    sleep_ms(100);
    throw CommError({.what = "no interface of that name"});
  });
  EXPECT_EQ(outcome.status, Outcome::Status::failed);
  EXPECT_THAT(outcome.reason, HasSubstr("rank 2 failed: no interface of that name"));
}

TEST(Supervisor, DifferentCallsExplainThePeerThatFailsFirst) {
  const Outcome outcome = supervise(2, [](int rank) {
    LaunchBoard::announce(2, "barrier", 0, "the same");
    sleep_ms(50 * rank);
    if (rank == 0) {
      LaunchBoard::announce(2, "all_reduce", 64, "a");
      throw CommError({.what = "a peer is gone"});
    }
    try {
      LaunchBoard::announce(2, "all_reduce", 64, "b");
    } catch (const CommError&) {
      sleep_ms(100);  // it leaves its connections before it says why
      throw;
    }
  });
  EXPECT_EQ(outcome.status, Outcome::Status::failed);
  EXPECT_THAT(outcome.reason, HasSubstr("the ranks called different collectives"));
  EXPECT_THAT(outcome.reason, HasSubstr("got: rank 0: all_reduce 'a' of 64 bytes; rank 1: "
                                        "all_reduce 'b' of 64 bytes"));
}

TEST(Supervisor, ACommErrorWithoutACauseIsShownItself) {
  const Outcome outcome = supervise(2, [](int rank) {
    if (rank == 0) sleep_ms(60'000);  // ended by SIGTERM
    throw CommError({.what = "the network is down"});
  });
  EXPECT_THAT(
      outcome.reason,
      MatchesRegex("rank 1 failed: the network is down\n  where: rank 1 of 2, process [0-9]+"));
}

TEST(Supervisor, ARankDeafToSigtermIsKilled) {
  const Outcome outcome = supervise(2, [](int rank) {
    if (rank == 1) throw std::bad_alloc();
    std::signal(SIGTERM, SIG_IGN);
    sleep_ms(60'000);
  });
  EXPECT_EQ(outcome.status, Outcome::Status::out_of_memory);
  EXPECT_THAT(outcome.reason, HasSubstr("rank 1 failed: out of memory"));
}

TEST(Supervisor, AnExitWithoutAWordIsAFailureEvenWithStatusZero) {
  const Outcome outcome = supervise(2, [](int rank) {
    if (rank == 1) _exit(0);
    sleep_ms(60'000);
  });
  EXPECT_THAT(outcome.reason,
              MatchesRegex("rank 1 failed: ended before it was done\n"
                           "  where: rank 1 of 2, process [0-9]+\n"
                           "  got: exit status 0, no error message\n"
                           "  expected: every rank ends by itself, and says how\n"
                           "  hint: something called exit\\(\\) in it: a plugin, or .*"));
}

TEST(Supervisor, AnExceptionOnAThreadOfItsOwnHasItsWords) {
  const Outcome outcome = supervise(2, [](int rank) {
    if (rank == 1) std::thread([] { throw std::runtime_error("its words"); }).join();
    sleep_ms(60'000);
  });
  EXPECT_THAT(outcome.reason, MatchesRegex("rank 1 failed: an exception left its thread\n"
                                           "  where: rank 1 of 2, process [0-9]+\n"
                                           "  got: its words\n"
                                           "  expected: .*"));
}

TEST(Supervisor, ARankThatIsKilledSaysWhereAndByWhat) {
  for (const auto& [signal, name, hint] : {std::tuple(SIGABRT, "Aborted", "it crashed, .*"),
                                           {SIGTERM, "Terminated", "who sent it\\?.*"},
                                           {SIGXCPU, "CPU time limit exceeded", ".*ulimit -t.*"},
                                           {SIGBUS, "Bus error", ".*was cut or written over.*"}}) {
    const Outcome outcome = supervise(2, [signal = signal](int rank) {
      if (rank == 1) kill(getpid(), signal);
      sleep_ms(60'000);
    });
    EXPECT_THAT(outcome.reason, MatchesRegex("rank 1 failed: killed by signal " +
                                             std::to_string(signal) + " \\(" + name +
                                             "\\)\n"
                                             "  where: rank 1 of 2, process [0-9]+\n"
                                             "  got: no error message\n"
                                             "  expected: every rank ends by itself, and says how\n"
                                             "  hint: " +
                                             hint));
  }
}

TEST(Supervisor, AStoppedRankIsNamedAndEnded) {
  const Outcome outcome = supervise(2, {.timeout_s = 1}, [](int rank) {
    if (rank == 1) raise(SIGSTOP);
    sleep_ms(60'000);
  });
  EXPECT_THAT(outcome.reason,
              MatchesRegex("rank 1 failed: stopped by signal 19 \\(Stopped \\(signal\\)\\)\n"
                           "  where: rank 1 of 2, process [0-9]+\n"
                           "  got: it does not go on, at the start\n"
                           "  expected: every rank where the others wait for it, within 1 s\n"
                           "  hint: who stopped it\\? .*"));
}

/// A number that ranks share.
std::atomic<int>& shared_number() {
  void* const memory = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) std::atomic<int>(0);
}

/// "123 (name of it) T ..."
bool is_stopped(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(stat), {});
  return text.find(") T ") != std::string::npos;
}

TEST(Supervisor, ARankThatIsStoppedForAMomentGoesOn) {
  const Outcome outcome = supervise(2, {.timeout_s = 2}, [](int rank) {
    if (rank == 1) {
      const pid_t self = getpid();
      if (fork() == 0) {
        while (!is_stopped(self)) sleep_ms(10);
        sleep_ms(300);
        kill(self, SIGCONT);
        _exit(0);
      }
      raise(SIGSTOP);
    }
    sleep_ms(2500);
  });
  EXPECT_EQ(outcome.status, Outcome::Status::ok) << outcome.reason;
}

TEST(Supervisor, TheStoppedRankIsBlamedForTheTimeOutsOfTheOthers) {
  std::atomic<int>& stops = shared_number();
  const Outcome outcome = supervise(3, [&](int rank) {
    if (rank == 2) {
      stops = getpid();
      raise(SIGSTOP);
    }
    while (stops == 0 || !is_stopped(stops)) sleep_ms(10);
    if (rank == 1) sleep_ms(100);  // it has not given up when rank 0 has
    throw TimeoutError({.what = "a collective failed", .got = "Timed out waiting 300ms for recv"});
  });
  EXPECT_THAT(outcome.reason, StartsWith("rank 2 failed: stopped by signal 19"));
}

TEST(Supervisor, ARankWhoseOwnWorkTakesTooLongIsBlamedForTheTimeOutsOfTheOthers) {
  std::atomic<int>& there = shared_number();
  const Outcome outcome = supervise(3, [&](int rank) {
    LaunchBoard::announce(3, "barrier", 0, "step");
    ++there;
    if (rank == 1) sleep_ms(60'000);
    LaunchBoard::announce(3, "all_reduce", 4096, "layers.0.w");
    if (rank == 2) {
      const LaunchBoard::Wait waiting;
      ++there;
      sleep_ms(60'000);
    }
    while (there < 4) sleep_ms(10);
    throw TimeoutError({.what = "a collective failed", .got = "Timed out waiting 300ms for recv"});
  });
  EXPECT_THAT(
      outcome.reason,
      MatchesRegex("rank 1 failed: the other ranks waited for it in vain\n"
                   "  where: rank 1 of 3, process [0-9]+\n"
                   "  got: at the start, after call 1 \\(barrier 'step'\\); the others wait in "
                   "call 2 \\(all_reduce 'layers.0.w' of 4096 bytes\\)\n"
                   "  expected: .*\n"
                   "  hint: .*"));
}

TEST(Supervisor, WordsOfATimeOutBlameNoOtherRank) {
  const Outcome outcome = supervise(2, [](int rank) {
    LaunchBoard::announce(2, "barrier", 0, "step");
    if (rank == 1) sleep_ms(60'000);
    LaunchBoard::announce(2, "all_reduce", 4096, "layers.0.w");
    sleep_ms(300);
    throw CommError({.what = "a check failed", .got = "no agreement within 3 rounds, timeout 60"});
  });
  EXPECT_THAT(outcome.reason, StartsWith("rank 0 failed: a check failed"));
}

TEST(Supervisor, AWaitWithoutEndIsEnded) {
  const Outcome outcome = supervise(2, {.timeout_s = 0.5}, [](int) {
    const LaunchBoard::Wait waiting;
    sleep_ms(60'000);
  });
  EXPECT_THAT(outcome.reason, HasSubstr("rank 0 failed: it waits for the other ranks, and its time "
                                        "limit does not end that"));
}

TEST(Supervisor, AWaitMayLastAsLongAsItsLimit) {
  const auto wait = [](int) {
    const LaunchBoard::Wait waiting;
    sleep_ms(2500);  // and a little more
  };
  EXPECT_EQ(supervise(2, {.timeout_s = 2}, wait).status, Outcome::Status::ok);
}

TEST(Supervisor, OwnWorkMayTakeLongerThanAWait) {
  const Outcome outcome = supervise(2, {.timeout_s = 0.2}, [](int) { sleep_ms(3500); });
  EXPECT_EQ(outcome.status, Outcome::Status::ok) << outcome.reason;
}

TEST(Supervisor, RanksThatAllHangInTheirOwnWorkAreEnded) {
  const Outcome outcome = supervise(2, {.progress_timeout_s = 1}, [](int) {
    const PhaseScope forward(Phase::forward);
    LaunchBoard::announce(2, "barrier", 0, "step");
    sleep_ms(60'000);
  });
  EXPECT_THAT(
      outcome.reason,
      MatchesRegex("rank [01] failed: its own work does not get on\n"
                   "  where: rank [01] of 2, process [0-9]+\n"
                   "  got: rank 0 in forward for [0-9]\\.[0-9] s, 1 call begun; rank 1 in forward "
                   "for [0-9]\\.[0-9] s, 1 call begun\n"
                   "  expected: a phase or a call that begins or ends within 1.0 s\n"
                   "  hint: .*progress_timeout_s.*"));
}

TEST(Supervisor, ALongSilenceThatEndedRaisesTheLimit) {
  const Outcome outcome = supervise(1, {.progress_timeout_s = 2.5}, [](int) {
    sleep_ms(1000);  // below the limit
    LaunchBoard::announce(1, "barrier", 0, "step");
    sleep_ms(3500);  // above it, and no more than 20 times what was before
  });
  EXPECT_EQ(outcome.status, Outcome::Status::ok) << outcome.reason;
}

TEST(Supervisor, WithoutALimitOfProgressOwnWorkGoesOn) {
  const Outcome outcome = supervise(1, {.progress_timeout_s = 0}, [](int) { sleep_ms(1500); });
  EXPECT_EQ(outcome.status, Outcome::Status::ok) << outcome.reason;
}

TEST(Supervisor, ASignalToTheParentEndsTheRanks) {
  const pid_t parent = getpid();
  const Outcome outcome = supervise(2, [parent](int rank) {
    if (rank == 0) kill(parent, SIGTERM);
    sleep_ms(60'000);
  });
  EXPECT_EQ(outcome.status, Outcome::Status::interrupted);
  EXPECT_EQ(outcome.signal, SIGTERM);
}

/// Of two ranks that are deaf to SIGTERM and have a long grace: the first asks the parent to end,
/// and, if it is asked twice, the other one when the first is done.
Outcome ask_to_end(bool twice) {
  const auto ask = [parent = getpid()] { kill(parent, SIGTERM); };
  const RankBody body = [&](const RankInfo& info, const auto&) -> nlohmann::json {
    std::signal(SIGTERM, SIG_IGN);
    sleep_ms(300);
    if (info.rank == 0) ask();
    sleep_ms(twice ? 700 * info.rank : 3000);
    if (twice && info.rank == 1) {
      ask();
      sleep_ms(10'000);
    }
    return "done";
  };
  WorldConfig world;
  world.size = 2;
  SignalWatch signals;
  return run_ranks(world, body, signals, {}, /*end_grace_s=*/60);
}

TEST(Supervisor, RanksHaveTheirGraceUntilTheyAreAskedTwice) {
  const Outcome once = ask_to_end(/*twice=*/false);
  EXPECT_EQ(once.status, Outcome::Status::interrupted);
  EXPECT_EQ(once.result, "done");
  EXPECT_TRUE(ask_to_end(/*twice=*/true).result.is_null()) << "a rank was not done, and is killed";
}

}  // namespace
}  // namespace ddprun
