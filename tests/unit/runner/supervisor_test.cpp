// The supervisor with ranks that do nothing but fail in every way.
#include "runner/launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <new>
#include <thread>

#include "ddprun/base/error.h"

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using Clock = std::chrono::steady_clock;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

struct Seen {
  std::vector<std::string> log;
  std::vector<Progress> progress;
};

Outcome supervise(int ranks, const std::function<nlohmann::json(int rank)>& body,
                  Seen* seen = nullptr) {
  SignalWatch signals;
  const RankObserver observer{
      [&](const Progress& p) {
        if (seen) seen->progress.push_back(p);
      },
      [&](int rank, const std::string& level, const std::string& text) {
        if (seen) seen->log.push_back(std::to_string(rank) + " " + level + " " + text);
      }};
  const RankBody rank_body = [&](const RankInfo& info, const auto& on_progress) {
    on_progress({1, 2, std::nan(""), 3.5});
    return body(info.rank);
  };
  return run_ranks(ranks, rank_body, signals, observer);
}

TEST(Supervisor, ReturnsTheResultOfRankZero) {
  Seen seen;
  const std::string large(3'000'000, 'x');  // many times the pipe's buffer
  const Outcome outcome = supervise(
      3,
      [&](int rank) -> nlohmann::json {
        if (rank == 1) spdlog::error("a word");
        return {{"rank", rank}, {"text", large}};
      },
      &seen);
  ASSERT_EQ(outcome.status, Outcome::Status::ok) << outcome.reason;
  EXPECT_EQ(outcome.result["rank"], 0);
  EXPECT_EQ(outcome.result["text"], large);
  EXPECT_THAT(seen.log, testing::ElementsAre("1 error a word"));
  ASSERT_EQ(seen.progress.size(), 1u);  // of rank 0 only
  EXPECT_TRUE(std::isnan(seen.progress[0].loss));
}

TEST(Supervisor, APeersOwnCauseIsPreferredToTheCommErrorsItCauses) {
  const Outcome outcome = supervise(3, [](int rank) -> nlohmann::json {
    if (rank != 2) throw CommError({.what = "a peer is gone"});
    sleep_ms(100);
    throw std::runtime_error("the cause");
  });
  EXPECT_EQ(outcome.status, Outcome::Status::failed);
  EXPECT_THAT(outcome.reason, MatchesRegex("rank 2 failed: the cause\n"
                                           "  where: rank 2 of 3, process [0-9]+\n"
                                           "  got: the cause\n"
                                           "  expected: no exception but ddprun's own\n"
                                           "  hint: these are the words of .*"));
}

TEST(Supervisor, ACommErrorWithoutACauseIsShownItself) {
  const auto begin = Clock::now();
  const Outcome outcome = supervise(2, [](int rank) -> nlohmann::json {
    if (rank == 0) sleep_ms(60'000);  // ended by SIGTERM
    throw CommError({.what = "timed out"});
  });
  EXPECT_THAT(outcome.reason,
              MatchesRegex("rank 1 failed: timed out\n  where: rank 1 of 2, process [0-9]+"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST(Supervisor, ARankDeafToSigtermIsKilled) {
  const auto begin = Clock::now();
  const Outcome outcome = supervise(2, [](int rank) -> nlohmann::json {
    if (rank == 1) throw std::bad_alloc();
    std::signal(SIGTERM, SIG_IGN);
    sleep_ms(60'000);
    return {};
  });
  EXPECT_EQ(outcome.status, Outcome::Status::out_of_memory);
  EXPECT_THAT(outcome.reason, HasSubstr("rank 1 failed: out of memory"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

TEST(Supervisor, AnExitWithoutAWordIsAFailureEvenWithStatusZero) {
  const Outcome outcome = supervise(2, [](int rank) -> nlohmann::json {
    if (rank == 1) _exit(0);
    sleep_ms(60'000);
    return {};
  });
  EXPECT_THAT(outcome.reason,
              MatchesRegex("rank 1 failed: ended before it was done\n"
                           "  where: rank 1 of 2, process [0-9]+\n"
                           "  got: exit status 0, no error message\n"
                           "  expected: every rank ends by itself, and says how\n"
                           "  hint: something called exit\\(\\) in it, perhaps a plugin"));
}

TEST(Supervisor, ARankThatIsKilledSaysWhereAndByWhat) {
  const Outcome outcome = supervise(2, [](int rank) -> nlohmann::json {
    if (rank == 1) kill(getpid(), SIGSEGV);
    sleep_ms(60'000);
    return {};
  });
  EXPECT_THAT(outcome.reason,
              MatchesRegex("rank 1 failed: killed by signal 11 \\(Segmentation fault\\)\n"
                           "  where: rank 1 of 2, process [0-9]+\n"
                           "  got: no error message\n"
                           "  expected: every rank ends by itself, and says how\n"
                           "  hint: it crashed, .*"));
}

TEST(Supervisor, ASignalToTheParentEndsTheRanks) {
  const pid_t parent = getpid();
  const Outcome outcome = supervise(2, [parent](int rank) -> nlohmann::json {
    if (rank == 0) kill(parent, SIGTERM);
    sleep_ms(60'000);
    return {};
  });
  EXPECT_EQ(outcome.status, Outcome::Status::interrupted);
  EXPECT_EQ(outcome.signal, SIGTERM);
}

}  // namespace
}  // namespace ddprun
