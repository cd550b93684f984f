// When a run saves, what stays, and what it costs.
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
    EXPECT_THAT(run({async, strategy}).out, AllOf(HasSubstr("4 of 4 checkpoints of e were saved"),
                                                  HasSubstr(", of which training stood ")));
    const json expected = last_row(folder_);
    const json& costs = expected["ranks"][0]["checkpoints"];
    int beside = 0;  // of one alone it may be none: another program had the cores
    for (const json& each : costs) beside += each["steps_beside"].get<int>();
    EXPECT_GE(beside, 1);
    EXPECT_EQ(costs[3]["steps_beside"], 0) << "the run ends with it";
    for (const int step : {2, 8}) checkpoint({"verify", saved(step)});
    run({from_4_, strategy});
    EXPECT_EQ(hashes_of(last_row(folder_)), hashes_of(expected)) << strategy;
  }
}

TEST_F(CheckpointSaving, SomeStayWhateverKeepSays) {
  run({"train.checkpoint={every: 1, keep: 1, keep_every: 3, path: saved}"});
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "saved")) {
    if (entry.is_directory()) there.insert(entry.path().filename());
  }
  EXPECT_EQ(there, (std::set<std::string>{"step-00000003", "step-00000006", "step-00000008"}));
}

TEST_F(CheckpointSaving, TheClockSaves) {
  run({"train.checkpoint={minutes: 0.005, keep: 0, path: saved}", "train.steps=600"});
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
  checkpoint({"verify", "saved"});
  const std::string steps = "train.steps=" + std::to_string(std::stoi(latest().substr(5)) + 10);
  run({save, "train.resume_from=latest", steps, lr});
  const std::set<std::string> resumed = hashes_of(last_row(folder_));
  run({steps, lr});
  EXPECT_EQ(resumed, hashes_of(last_row(folder_))) << "the run that nobody ended";
}

TEST_F(CheckpointSaving, ARunThatIsDoneWhenItIsAskedToEndIsARow) {
  DdprunProcess process(
      folder_, words_of({"train.checkpoint={on_signal: true, every: 8, path: saved}",
                         "--plugin-path=" DDPRUN_BUILD_DIR "/tests/plugins/slow",
                         "strategy={name: slow, sleep_ms: 2000, first: 8}"}));  // the last checks
  ASSERT_TRUE(eventually(30, [&] { return fs::exists(folder_.path() / "saved/latest"); }));
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(), 128 + SIGTERM) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("what was done is in"));
  EXPECT_EQ(last_row(folder_)["status"], "ok");
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
  checkpoint({"verify", "saved"});
}

TEST_F(CheckpointSaving, ARankOfAJoinedLaunchThatIsAskedToEndSavesWithTheOthers) {
  const fs::path saved = folder_.path() / "saved";
  Launch launch(2);
  const auto words = with_sets(
      {"one.yaml", "-v"},
      {"train.steps=400000", "train.checkpoint={on_signal: true, path: " + saved.string() + "}"});
  DdprunProcess& first = launch.start(0, words);
  ASSERT_TRUE(first.says("its network is trusted")) << first.err();
  kill(first.pid(), SIGUSR1);  // there is no run yet that could save
  DdprunProcess& second = launch.start(1, words);
  ASSERT_TRUE(first.says(": step ")) << first.err() << second.err();
  kill(second.pid(), SIGUSR1);
  ASSERT_TRUE(eventually(30, [&] { return fs::exists(saved / "latest"); })) << first.err();
  kill(second.pid(), SIGTERM);
  launch.expect_all(1, HasSubstr("the run was asked to end"), 60);
  checkpoint({"verify", "saved"});
}

}  // namespace
}  // namespace ddprun::test
