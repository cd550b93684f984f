// When a run saves, what stays, and what it costs.
#include <gtest/gtest.h>
#include <signal.h>

#include "support/checkpoint_fixture.h"
#include "support/joined_launch.h"
#include "support/matchers.h"

namespace ddprun::test {
namespace {

using CheckpointSaving = Checkpoint;

TEST_F(CheckpointSaving, WhatIsWrittenWhileTrainingGoesOnIsTheStateOfItsStep) {
  const std::string async = "train.checkpoint={every: 2, keep: 0, async: true, path: saved}";
  for (const char* strategy : {"strategy=zero2", "strategy=powersgd", "strategy=fsdp"}) {
    fs::remove_all(folder_.path() / "saved");
    const CommandResult whole = run({async, strategy});
    ASSERT_EQ(whole.status, 0) << whole.err;
    EXPECT_THAT(whole.out, AllOf(HasSubstr("4 of 4 checkpoints of e were saved"),
                                 HasSubstr(", of which training stood ")));
    const json expected = last_row(folder_);
    const json& costs = expected["ranks"][0]["checkpoints"];
    int beside = 0;  // of one alone it may be none: another program had the cores
    for (const json& each : costs) beside += each["steps_beside"].get<int>();
    EXPECT_GE(beside, 1);
    EXPECT_EQ(costs[3]["steps_beside"], 0) << "the run ends with it";
    for (const int step : {2, 4, 6, 8}) {
      EXPECT_EQ(checkpoint({"verify", saved(step)}).status, 0) << step;
    }
    ASSERT_EQ(run({from_4_, strategy}).status, 0);
    EXPECT_EQ(hashes_of(last_row(folder_)), hashes_of(expected)) << strategy;
  }
}

TEST_F(CheckpointSaving, SomeStayWhateverKeepSays) {
  ASSERT_EQ(run({"train.checkpoint={every: 1, keep: 1, keep_every: 3, path: saved}"}).status, 0);
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "saved")) {
    if (entry.is_directory()) there.insert(entry.path().filename());
  }
  EXPECT_EQ(there, (std::set<std::string>{"step-00000003", "step-00000006", "step-00000008"}));
}

TEST_F(CheckpointSaving, TheClockSaves) {
  const CommandResult timed =
      run({"train.checkpoint={minutes: 0.005, keep: 0, path: saved}", "train.steps=600"});
  ASSERT_EQ(timed.status, 0) << timed.err;
  EXPECT_GE(last_row(folder_)["ranks"][0]["checkpoints"].size(), 2u) << "0.3 s each, and the last";
}

TEST_F(CheckpointSaving, SignalsSaveAndEnd) {
  const std::string save = "train.checkpoint={on_signal: true, path: saved}";
  const std::string lr = "optimizer={lr: 0.01}";  // whatever the number of steps
  DdprunProcess process(folder_, words_of({save, "train.steps=400000", lr}));
  const auto latest = [this] { return read_file(folder_.path() / "saved/latest"); };
  ASSERT_TRUE(eventually(30, [&] { return process.ranks().size() == 2; }));
  ASSERT_TRUE(eventually(30, [&] {
    kill(process.pid(), SIGUSR1);
    return !latest().empty();
  })) << "saves and goes on";
  EXPECT_EQ(process.ranks().size(), 2u);
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(), 128 + SIGTERM) << process.err();
  EXPECT_THAT(process.err(), AllOf(HasSubstr("saved as "), HasSubstr(", as SIGTERM asked")));
  EXPECT_EQ(checkpoint({"verify", "saved"}).status, 0);
  const std::string steps = "train.steps=" + std::to_string(std::stoi(latest().substr(5)) + 10);
  const CommandResult rest = run({save, "train.resume_from=latest", steps, lr});
  ASSERT_EQ(rest.status, 0) << rest.err;
  const std::set<std::string> resumed = hashes_of(last_row(folder_));
  ASSERT_EQ(run({steps, lr}).status, 0);
  EXPECT_EQ(resumed, hashes_of(last_row(folder_))) << "the run that nobody ended";
}

TEST_F(CheckpointSaving, ARankThatIsAskedToEndSavesWithTheOthers) {
  const std::string save = "train.checkpoint={on_signal: true, path: saved}";
  DdprunProcess process(folder_, words_of({save, "train.steps=400000"}));
  ASSERT_TRUE(eventually(30, [&] {
    if (process.ranks().size() == 2) kill(process.ranks().back(), SIGUSR1);
    return fs::exists(folder_.path() / "saved/latest");
  }));
  kill(process.ranks().back(), SIGTERM);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), AllOf(HasSubstr("the run was asked to end"),
                                   HasSubstr("train.resume_from: latest goes on")));
  EXPECT_EQ(checkpoint({"verify", "saved"}).status, 0);
}

TEST_F(CheckpointSaving, ARankOfAJoinedLaunchThatIsAskedToEndSavesWithTheOthers) {
  const fs::path saved = folder_.path() / "saved";
  Launch launch(2);
  launch.free_port();
  std::vector<DdprunProcess*> ranks;
  for (const int rank : {0, 1}) {
    ranks.push_back(
        &launch.start(rank, {"one.yaml", "-v", "--set", "train.steps=400000", "--set",
                             "train.checkpoint={on_signal: true, path: " + saved.string() + "}"}));
  }
  const auto trains = [&] { return ranks[0]->err().find(": step ") != std::string::npos; };
  ASSERT_TRUE(eventually(30, trains)) << ranks[0]->err() << ranks[1]->err();
  kill(ranks[1]->pid(), SIGUSR1);
  ASSERT_TRUE(eventually(30, [&] { return fs::exists(saved / "latest"); })) << ranks[0]->err();
  kill(ranks[1]->pid(), SIGTERM);
  for (DdprunProcess* rank : ranks) {
    EXPECT_EQ(rank->wait(), 1) << rank->err();
    EXPECT_THAT(rank->err(), HasSubstr("the run was asked to end")) << rank->out();
  }
  EXPECT_EQ(checkpoint({"verify", "saved"}).status, 0);
}

}  // namespace
}  // namespace ddprun::test
