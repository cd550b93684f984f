// Successive halving with times that are made up.
#include "runner/tune/halving.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace ddprun::halving_test {
namespace {

/// Candidates whose steps take so long, with noise of a share of that, and a clock that counts a
/// second for each run.
class Machine {
 public:
  explicit Machine(std::vector<double> ms, double noise = 0.01)
      : ms_(std::move(ms)), noise_(noise) {}

  HalvingTasks tasks() {
    return {.measure =
                [this](const HalvingRun& due) {
                  runs.push_back(due);
                  used_s += run_s;
                  if (due.turn == interrupted_in) {
                    return Measured{.status = Measured::Status::interrupted};
                  }
                  if (const auto found = fails.find(due.candidate); found != fails.end()) {
                    return Measured{.status = found->second, .ms = ms_[due.candidate]};
                  }
                  std::normal_distribution<double> noise(0, noise_);
                  return Measured{.ms = ms_[due.candidate] * std::exp(noise(random_))};
                },
            .used_s = [this] { return used_s; },
            .on_round = [this](const HalvingRound& round) { rounds.push_back(round); }};
  }

  std::map<std::size_t, Measured::Status> fails;
  std::int64_t interrupted_in = 0;
  double run_s = 1, used_s = 0;
  std::vector<HalvingRun> runs;
  std::vector<HalvingRound> rounds;

 private:
  std::vector<double> ms_;
  double noise_;
  std::mt19937 random_{7};
};

constexpr HalvingConfig kPlenty = {.first_steps = 5, .full_steps = 40, .limit_s = 1e6};

std::size_t runs_of(const Machine& machine, std::size_t candidate) {
  return static_cast<std::size_t>(
      std::ranges::count(machine.runs, candidate, &HalvingRun::candidate));
}

TEST(Halving, FindsTheFastestAndSpendsLittleOnTheSlowest) {
  Machine machine({10, 9, 20, 7, 12, 40, 11, 30});
  Halving halving(8, 0, kPlenty);
  EXPECT_EQ(halving.run(machine.tasks()), HalvingEnd::one_left);
  EXPECT_EQ(halving.best(), 3U);
  EXPECT_EQ(halving.winner(), 3U);
  EXPECT_EQ(runs_of(machine, 5), 3U) << "four times as slow, and not gone after the first round";
  EXPECT_EQ(runs_of(machine, 0), runs_of(machine, 3))
      << "the others are held against the reference";
  const auto claim = halving.claim();
  ASSERT_TRUE(claim && claim->p);
  EXPECT_NEAR(claim->ratio, 0.7, 0.02);
  EXPECT_LT(*claim->p, Comparison::kNoise);
  EXPECT_EQ(claim->chosen_from, 7);
}

TEST(Halving, RunsOfARoundTakeTurnsAndEachRoundHasTwiceTheSteps) {
  Machine machine({10, 10.01, 10.02});
  Halving halving(3, 0, kPlenty);
  halving.run(machine.tasks());
  ASSERT_GE(machine.runs.size(), 9U);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(machine.runs[i].candidate, i % 3);
    EXPECT_EQ(machine.runs[i].turn, static_cast<std::int64_t>(i / 3) + 1);
  }
  ASSERT_EQ(machine.rounds.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(machine.rounds[i].steps, 5 << i);
}

/// By chance one pair of a hundred may be told apart.
TEST(Halving, KeepsTies) {
  Machine machine({10, 10, 10, 10, 10, 10});
  Halving halving(6, 0, kPlenty);
  EXPECT_EQ(halving.run(machine.tasks()), HalvingEnd::within_noise);
  EXPECT_GE(machine.rounds.back().left, 4U);
  EXPECT_EQ(halving.winner(), 0U) << "a tie is no reason to change the file";
}

/// Whatever the noise is: what leaves is slower than the best by a test of its runs.
TEST(Halving, NeverDropsWhatOverlapsTheBest) {
  for (const double noise : {0.001, 0.05, 0.3}) {
    Machine machine({10, 10.5, 11, 12, 13, 9.5, 14, 15}, noise);
    Halving halving(8, 0, kPlenty);
    HalvingTasks tasks = machine.tasks();
    std::vector<bool> gone(8);
    tasks.on_round = [&](const HalvingRound& round) {
      for (std::size_t i = 0; i < 8; ++i) {
        const bool slower = halving.contenders()[i].standing == Standing::slower;
        if (!slower || gone[i]) continue;
        gone[i] = true;
        ASSERT_TRUE(round.best);
        const auto comparison = halving.against(i, *round.best);
        ASSERT_TRUE(comparison && comparison->interval);
        EXPECT_GT(comparison->interval->low, 1) << "candidate " << i << ", noise " << noise;
      }
    };
    halving.run(tasks);
    if (noise < 0.01) {
      EXPECT_EQ(halving.winner(), 5U);
    }
  }
}

TEST(Halving, EndsOnTime) {
  Machine machine({10, 10, 10, 10}, 0.1);
  Halving halving(4, 0, {.first_steps = 5, .full_steps = 1000000, .limit_s = 50});
  EXPECT_EQ(halving.run(machine.tasks()), HalvingEnd::time);
  EXPECT_LE(machine.used_s, 50);
  EXPECT_GE(machine.used_s, 48);
}

/// In 20 s six candidates have three runs each: the first six, of which likely ones come first.
TEST(Halving, TriesAsManyAsTheTimeAllows) {
  Machine machine(std::vector<double>(40, 10), 0.01);
  Halving halving(40, 0, {.first_steps = 5, .full_steps = 40, .limit_s = 20});
  EXPECT_EQ(halving.run(machine.tasks()), HalvingEnd::time);
  EXPECT_LE(machine.used_s, 20);
  for (std::size_t i = 0; i < 40; ++i) {
    const Contender& each = halving.contenders()[i];
    EXPECT_EQ(each.standing == Standing::untried, i >= 6) << i;
    EXPECT_EQ(each.ms.empty(), i >= 6) << i;
  }
  Machine slow({10, 5, 5});
  slow.run_s = 100;
  Halving hasty(3, 0, {.limit_s = 20});
  EXPECT_EQ(hasty.run(slow.tasks()), HalvingEnd::time);
  EXPECT_EQ(slow.runs.size(), 1U) << "a run that began ends, and none follows";
  EXPECT_EQ(hasty.winner(), 0U);
}

TEST(Halving, OneRunIsNoProof) {
  Machine machine({10, 5});
  Halving halving(2, 0, {.limit_s = 3});
  halving.run(machine.tasks());
  EXPECT_EQ(halving.best(), 1U);
  ASSERT_TRUE(halving.claim());
  EXPECT_FALSE(halving.claim()->p);
  EXPECT_EQ(halving.winner(), 0U);
}

TEST(Halving, WhatFailsOrIsNotProvedNeverWins) {
  Machine machine({10, 1, 2, 9});
  machine.fails = {{1, Measured::Status::failed}, {2, Measured::Status::unproved}};
  Halving halving(4, 0, kPlenty);
  halving.run(machine.tasks());
  EXPECT_EQ(halving.winner(), 3U);
  EXPECT_EQ(halving.contenders()[1].standing, Standing::failed);
  EXPECT_EQ(halving.contenders()[2].standing, Standing::failed);
  EXPECT_EQ(runs_of(machine, 1), 1U);
  EXPECT_EQ(runs_of(machine, 2), 1U);
}

TEST(Halving, AnUnprovedReferenceIsHeldAgainstAndDoesNotWin) {
  Machine machine({1, 10, 12});
  machine.fails = {{0, Measured::Status::unproved}};
  Halving halving(3, 0, kPlenty);
  halving.run(machine.tasks());
  EXPECT_EQ(halving.winner(), 1U);
  EXPECT_EQ(halving.contenders()[0].standing, Standing::unproved);
  EXPECT_TRUE(halving.against(1, 0));
}

TEST(Halving, WithoutAReferenceTheFastestWins) {
  Machine machine({10, 9, 12});
  Halving halving(3, {}, kPlenty);
  EXPECT_EQ(halving.run(machine.tasks()), HalvingEnd::one_left);
  EXPECT_EQ(halving.winner(), 1U);
  EXPECT_FALSE(halving.claim());
  Machine failing({10, 9});
  failing.fails = {{0, Measured::Status::failed}, {1, Measured::Status::failed}};
  Halving none(2, 0, kPlenty);
  EXPECT_EQ(none.run(failing.tasks()), HalvingEnd::none_left);
  EXPECT_FALSE(none.winner());
}

TEST(Halving, InterruptedItKnowsWhatItHas) {
  Machine machine({10, 8, 12});
  machine.interrupted_in = 5;
  Halving halving(3, 0, {.first_steps = 5, .full_steps = 1000000, .limit_s = 1e6});
  EXPECT_EQ(halving.run(machine.tasks()), HalvingEnd::interrupted);
  EXPECT_EQ(halving.winner(), 1U);
  Machine at_once({10, 8, 12});
  at_once.interrupted_in = 1;
  Halving nothing(3, 0, kPlenty);
  EXPECT_EQ(nothing.run(at_once.tasks()), HalvingEnd::interrupted);
  EXPECT_FALSE(nothing.winner());
  EXPECT_EQ(nothing.contenders()[2].standing, Standing::untried);
}

}  // namespace
}  // namespace ddprun::halving_test
