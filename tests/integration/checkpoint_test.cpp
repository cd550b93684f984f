// Checkpoints as a user meets them: runs that are cut, killed, damaged, and go on.
#include <signal.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "support/checkpoint_fixture.h"
#include "support/matchers.h"

namespace ddprun::test {
namespace {

TEST_F(Checkpoint, ARunThatGoesOnEndsAsTheOneThatWasNotCut) {
  const std::string shuffled = "data={source: text, path: text.txt, order: shuffled}";
  const CommandResult whole = run({save_, shuffled});
  EXPECT_THAT(whole.out, AllOf(HasSubstr("4 of 4 checkpoints of e were saved, each of "),
                               HasSubstr("saved/step-00000008")));
  const json expected = last_row(folder_);
  const CommandResult rest = run({from_4_, shuffled});
  EXPECT_THAT(rest.out, HasSubstr("proved in 1 of 1 row: begun with what the checkpoint holds, "));
  const json row = last_row(folder_);
  EXPECT_THAT(detail_of(row, "resumed"), AllOf(HasSubstr("step 4 of 2 ranks, bit for bit, from "),
                                               Not(HasSubstr("not as it was"))));
  EXPECT_EQ(hashes_of(row), hashes_of(expected));
  std::map<std::int64_t, double> tail = losses_of(expected);
  std::erase_if(tail, [](const auto& loss) { return loss.first < 4; });
  EXPECT_EQ(losses_of(row), tail);
}

TEST_F(Checkpoint, GoesOnOnOtherRanksWithAnotherStrategyAndSaysSo) {
  run({save_, "strategy=zero2"});
  const std::map<std::int64_t, double> expected = losses_of(last_row(folder_));
  for (const char* other : {"strategy=fsdp", "strategy=zero1_cs336", "strategy=naive"}) {
    run({from_4_, other, "world.size=1", "train.batch_per_rank=4"});
    const json row = last_row(folder_);
    EXPECT_THAT(detail_of(row, "resumed"),
                AllOf(HasSubstr("step 4 of 2 ranks"), HasSubstr("strategy.name zero2, now ")));
    EXPECT_THAT(detail_of(row, "resumed"), Not(HasSubstr("global batch")));
    checkpoint({"verify", saved(4)});
    const std::map<std::int64_t, double> losses = losses_of(row);
    EXPECT_EQ(losses.size(), 4u);
    for (const auto& [step, loss] : losses) {
      EXPECT_NEAR(loss, expected.at(step), 1e-5 * expected.at(step)) << other << ", step " << step;
    }
  }
}

TEST_F(Checkpoint, AnotherGlobalBatchIsSaid) {
  run({save_});
  run({from_4_, "world.size=3"});
  EXPECT_THAT(detail_of(last_row(folder_), "resumed"), HasSubstr("a global batch of 4, now 6"));
}

TEST_F(Checkpoint, WhatAStrategyCarriesIsOfItsRanks) {
  run({save_, "strategy=powersgd", "optimizer.clip_norm=0"});
  const CommandResult other = run({from_4_, "strategy=powersgd", "world.size=3",
                                   "optimizer.clip_norm=0", "train.batch_per_rank=2"},
                                  1);
  EXPECT_THAT(other.err, HasSubstr("belongs to the ranks that wrote it"));
  const CommandResult dropped = run({from_4_, "world.size=3", "-v"});
  EXPECT_THAT(dropped.err, HasSubstr("of strategy powersgd: what that carried is left"));
}

TEST_F(Checkpoint, ARunThatIsKilledGoesOnFromTheLatest) {
  const std::string save = "train.checkpoint={every: 1, path: saved}";
  run({"train.steps=60"});
  const std::set<std::string> expected = hashes_of(last_row(folder_));
  {
    DdprunProcess process(folder_, words_of({save, "train.steps=60"}));
    ASSERT_TRUE(eventually(30, [&] { return fs::exists(folder_.path() / "saved/latest"); }));
    kill(-process.pid(), SIGKILL);
    ASSERT_EQ(process.wait(), 1000 + SIGKILL);
    ASSERT_TRUE(eventually(10, [&] { return process.ranks().empty(); }));
  }
  run({save, "train.steps=60", "train.resume_from=latest"});
  const json row = last_row(folder_);
  EXPECT_EQ(hashes_of(row), expected);
  EXPECT_NE(detail_of(row, "resumed"), "absent");
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "saved")) {
    left.insert(entry.path().filename());
  }
  EXPECT_EQ(left, (std::set<std::string>{".lock", "latest", "step-00000060", "step-00000061"}));
}

TEST_F(Checkpoint, ARankThatIsKilledIsStartedAgain) {
  const std::string save = "train.checkpoint={every: 5, path: saved}";
  run({"train.steps=200"});
  const std::set<std::string> expected = hashes_of(last_row(folder_));
  DdprunProcess process(folder_, words_of({save, "train.steps=200", "--max-restarts=2"}));
  for (const int step : {10, 20}) {
    ASSERT_TRUE(eventually(30, [&] {
      const std::string latest = read_file(folder_.path() / "saved/latest");
      return latest.size() > 5 && std::stoi(latest.substr(5)) >= step &&
             process.ranks().size() == 2;
    }));
    kill(process.ranks().back(), SIGKILL);
    ASSERT_TRUE(
        process.says(step == 10 ? "start 2 of 3, from the last checkpoint" : "start 3 of 3, from"));
  }
  ASSERT_EQ(process.wait(/*seconds=*/120), 0) << process.err();
  const json row = last_row(folder_);
  EXPECT_EQ(hashes_of(row), expected);
  EXPECT_THAT(process.out(), HasSubstr("e was started again 2 times (the last one: rank "));
  EXPECT_EQ(row["restarts"]["reasons"].size(), 2u);
  EXPECT_THAT(row["restarts"]["reasons"][0], HasSubstr("signal 9"));
  EXPECT_GT(row["restarts"]["ettr"], 0.0);
  EXPECT_LT(row["restarts"]["ettr"], 1.0);
}

TEST_F(Checkpoint, ARunWithoutCheckpointsIsStartedAgainFromTheBeginning) {
  const Words words = words_of({"train.steps=1000000", "--max-restarts=1", "-v"});
  DdprunProcess process(folder_, words);
  for (const char* start : {"starting 2 ranks", "start 2 of 2, from the beginning"}) {
    ASSERT_TRUE(
        eventually(30, [&] { return process.has_said(start) && process.ranks().size() == 2; }));
    kill(process.ranks().front(), SIGKILL);
  }
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("killed by signal 9"));
}

TEST_F(Checkpoint, ARunWhoseCheckpointIsDamagedIsNotStartedAgainAndTheNextRuns) {
  folder_.write("e.yaml", tiny_experiment("sweep: {train.steps: [1000000, 3]}\n"));
  DdprunProcess process(folder_,
                        words_of({"train.checkpoint={every: 5, path: saved}", "--max-restarts=2"}));
  const fs::path saved = folder_.path() / "saved/train.steps=1000000";
  ASSERT_TRUE(eventually(30, [&] { return fs::exists(saved / "latest"); }));
  const std::vector<pid_t> ranks = process.ranks();
  for (const pid_t rank : ranks) kill(rank, SIGSTOP);
  folder_.write("saved/train.steps=1000000/latest", "nowhere\n");
  for (const pid_t rank : ranks) kill(rank, SIGKILL);
  ASSERT_EQ(process.wait(), 1) << process.err();
  EXPECT_THAT(process.err(), AllOf(HasSubstr("killed by signal 9"),
                                   HasSubstr("it is not started again: no checkpoint can be read"),
                                   HasSubstr("[2/2] 3: ")));
  EXPECT_THAT(process.out(), HasSubstr("1 of 1 checkpoint of train.steps=3 was"));
}

TEST_F(Checkpoint, LatestBeginsWhereThereIsNoneYet) {
  const CommandResult first = run({save_, "train.resume_from=latest"});
  EXPECT_THAT(first.out, Not(HasSubstr("begun with")));
  const CommandResult done = run({save_, "train.resume_from=latest"}, 2);
  EXPECT_THAT(done.err, HasSubstr("has done all steps that are asked for"));
  run({save_, "train.resume_from=latest", "train.steps=9"});
  EXPECT_EQ(losses_of(last_row(folder_)).begin()->first, 8);
}

TEST_F(Checkpoint, RowsThatHaveDoneAllStepsAreTakenOver) {
  folder_.write("e.yaml", tiny_experiment("sweep: {strategy: [flat, naive]}\n", 7));
  const std::string latest = "train.resume_from=latest";
  run({save_, latest});
  const CommandResult again = run({save_, latest, "--resume"});
  EXPECT_THAT(again.err, AllOf(HasSubstr("[1/2] flat: taken over from "),
                               HasSubstr("[2/2] naive: taken over from ")));
  fs::remove_all(folder_.path() / "saved/strategy=naive");
  fs::remove_all(folder_.path() / "results");
  run({save_, latest, "--resume"});
  EXPECT_EQ(last_row(folder_)["status"], "not here");
  fs::remove_all(folder_.path() / "results");
  const CommandResult none = run({save_, latest, "--resume"}, 2);
  EXPECT_THAT(none.err, HasSubstr("has done all steps that are asked for"));
}

TEST_F(Checkpoint, DamageIsSeenBeforeAStep) {
  run({save_});
  flip_byte(saved(4) / "optimizer.safetensors", 5);
  EXPECT_THAT(run({from_4_}, 1).err, AllOf(HasSubstr("a checkpoint is not what was saved"),
                                           HasSubstr("optimizer.safetensors: "),
                                           HasSubstr("another hash"), Not(HasSubstr(": step "))));
  fs::resize_file(saved(4) / "model.safetensors", 5000);
  const CommandResult cut = run({from_4_}, 2);
  EXPECT_THAT(cut.err, HasSubstr("not a whole file of tensors in the safetensors format"));
  // The weights of one step, and what another says of them.
  fs::copy_file(saved(2) / "model.safetensors", saved(4) / "model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(run({from_4_}, 1).err, HasSubstr("model.safetensors: "));
  flip_byte(saved(6) / "state.json", 40);
  run({"train.resume_from=saved/step-00000006"}, 2);
  run({"train.resume_from=saved/step-00000008", "train.steps=9"});
}

TEST_F(Checkpoint, AnotherModelOrOptimizerIsRefusedBeforeARankStarts) {
  run({save_});
  const auto refusal = [&](const std::string& setting) { return run({from_4_, setting}, 2).err; };
  EXPECT_THAT(refusal("model.d_ff=128"), AllOf(HasSubstr("the checkpoint is of another model"),
                                               HasSubstr("[64, 32]"), HasSubstr("[128, 32]")));
  EXPECT_THAT(refusal("model.layers=2"), HasSubstr("layers.1."));
  EXPECT_THAT(refusal("optimizer={name: sgd, lr: 0.1}"),
              HasSubstr("the moments of another optimizer"));
  run({"train.checkpoint={every: 4, path: frozen}", "model.frozen=[layers.0.attn.*]"});
  EXPECT_THAT(run({"train.resume_from=frozen/step-00000004"}, 2).err,
              AllOf(HasSubstr("no moments of a parameter that is trained now"),
                    HasSubstr("got: layers.0.attn.q_proj.weight, which was frozen")));
  EXPECT_THAT(run({"train.resume_from=nowhere"}, 2).err,
              AllOf(HasSubstr("there is no checkpoint\n"), HasSubstr("latest begins at step 0")));
}

TEST_F(Checkpoint, AFolderIsOfOneRun) {
  run({save_});
  EXPECT_THAT(run({save_}, 2).err, HasSubstr("the folder has checkpoints of an earlier run"));
  EXPECT_THAT(run({save_, "--resume"}).err, HasSubstr("e: taken over from ")) << "it has its row";
  checkpoint({"verify", "saved"});
}

TEST_F(Checkpoint, ADiskThatIsFullCostsTheCheckpointAndNotTheRun) {
  // Results are smaller than a checkpoint. Who ignores the signal gets the error, as of a full
  // disk.
  for (const char* async : {"false", "true"}) {
    const CommandResult full =
        run({save_, std::string("train.checkpoint.async=") + async, "model.d_ff=8192",
             "model.kernels=reference"},
            1, {"/usr/bin/env", "--ignore-signal=XFSZ", "/usr/bin/prlimit", "--fsize=1000000"});
    EXPECT_THAT(full.out, AllOf(HasSubstr("✓ proved"), HasSubstr("no checkpoint of e was saved")));
    EXPECT_THAT(full.err, ContainsRegex("error: the last checkpoint of e was not saved: .*File too "
                                        "large"));
    EXPECT_EQ(last_row(folder_)["status"], "ok");
    const fs::directory_iterator left(folder_.path() / "saved");
    ASSERT_EQ(std::distance(begin(left), end(left)), 1) << "what a save left takes no more room";
    EXPECT_TRUE(fs::exists(folder_.path() / "saved/.lock"));
  }
  const CommandResult again = run({save_, "train.checkpoint.async=true", "model.d_ff=8192",
                                   "model.kernels=reference", "--resume"});
  EXPECT_THAT(again.err, HasSubstr("e: runs again: its last checkpoint was not saved"));
}

TEST_F(Checkpoint, OfASweepThatWasInterruptedTheRestRuns) {
  folder_.write("e.yaml", tiny_experiment("sweep: {strategy: [flat, zero1]}\n", 3));
  run({save_});
  fs::remove_all(folder_.path() / "saved/strategy=zero1");
  const CommandResult rest = run({save_, "train.resume_from=latest"});
  EXPECT_THAT(rest.out, HasSubstr("not here: the run of the checkpoint has done all steps"));
  for (const char* point : {"strategy=flat", "strategy=zero1"}) {
    EXPECT_TRUE(fs::exists(folder_.path() / "saved" / point / "step-00000004")) << point;
  }
  run({save_, "train.resume_from=latest", "train.steps=5"});
}

TEST_F(Checkpoint, ARowThatEarlierCheckpointsAreInTheWayOfFails) {
  folder_.write("e.yaml", tiny_experiment("sweep: {strategy: [flat, zero1]}\n", 3));
  run({save_});
  fs::remove_all(folder_.path() / "results");  // as if it had been interrupted in its second row
  fs::remove_all(folder_.path() / "saved/strategy=flat");
  const CommandResult rest = run({save_, "--resume"}, 1);
  EXPECT_THAT(rest.out, HasSubstr("failed: the folder has checkpoints of an earlier run"));
  EXPECT_THAT(rest.out, HasSubstr("✓ proved")) << "the other row runs";
  EXPECT_THAT(rest.err, HasSubstr("hint: train.resume_from: latest goes on"));
}

TEST_F(Checkpoint, APointWhoseLabelIsTooLongForAFolderHasOne) {
  std::string groups;
  for (const char* name : {"q", "k", "v", "output"}) {
    groups += std::string("{match: layers.0.attn.") + name + "_proj.weight, lr_scale: 0.5}, ";
  }
  folder_.write("e.yaml",
                tiny_experiment("sweep:\n  optimizer.groups: [[" + groups +
                                "]]\n"
                                "  model.frozen: [[layers.0.ln1.weight, layers.0.ln2.weight]]\n"
                                "  strategy: [{name: bucketed, bucket_mb: 5}]\n"));
  const CommandResult long_label = must_run(folder_, {"e.yaml", "--set", save_});
  const fs::path point = fs::directory_iterator(folder_.path() / "saved")->path();
  EXPECT_EQ(point.filename().string().size(), 255U) << long_label.out;
  EXPECT_TRUE(fs::exists(point / "step-00000004"));
}

TEST_F(Checkpoint, WhatWouldBeIgnoredIsRefused) {
  const auto refusal = [&](const Words& sets) { return run(sets, 2).err; };
  EXPECT_THAT(refusal({"train.checkpoint.every=2"}), HasSubstr("checkpoints need a folder"));
  EXPECT_THAT(refusal({"train.resume_from=latest"}), HasSubstr("checkpoints need a folder"));
  EXPECT_THAT(refusal({"train.checkpoint={keep: 3, path: saved}"}),
              HasSubstr("train.checkpoint.keep has no effect with train.checkpoint.every 0"));
  EXPECT_THAT(refusal({save_, "train.measure=forward_backward", "optimizer={}"}),
              HasSubstr("train.checkpoint.every has no effect with train.measure"));
  run({save_});
  const std::string verified = refusal_of(folder_, {"verify", "e.yaml", "--set", from_4_});
  EXPECT_THAT(verified, HasSubstr("has no effect with ddprun verify"));
}

TEST_F(Checkpoint, IsInspectedVerifiedAndCompared) {
  run({save_, "strategy={name: local_sgd, every: 3}"});
  EXPECT_THAT(checkpoint({"inspect", "saved"}).out,
              AllOf(HasSubstr("after step 8 (8 updates), of 2 ranks, strategy local_sgd"),
                    HasSubstr("model.safetensors: token_embeddings.weight"),
                    HasSubstr("optimizer.safetensors: lm_head.weight.exp_avg_sq"),
                    HasSubstr("rank-00001.safetensors: strategy.steps"), HasSubstr("[256, 32]")));
  checkpoint({"verify", saved(2)});
  const CommandResult same = checkpoint({"diff", saved(2), saved(2)});
  EXPECT_THAT(same.out, HasSubstr("the same tensors, bit for bit"));
  EXPECT_THAT(checkpoint({"diff", saved(2), saved(4)}, 1).out, HasSubstr("lm_head.weight: "));
  flip_byte(saved(2) / "rank-00001.safetensors", 3);
  const CommandResult damaged = checkpoint({"verify", saved(2)}, 1);
  EXPECT_THAT(damaged.err, HasSubstr("is damaged: rank-00001.safetensors: "));
  fs::resize_file(saved(4) / "model.safetensors", 5000);
  fs::resize_file(saved(6) / "state.json", 500);
  for (const char* action : {"inspect", "verify"}) {
    EXPECT_THAT(checkpoint({action, saved(4)}, 1).err, HasSubstr("model.safetensors"));
    EXPECT_THAT(checkpoint({action, saved(6)}, 1).err, HasSubstr("no checkpoint can be read"));
  }
  checkpoint({"diff", saved(2), saved(4)}, 1);
  checkpoint({"verify", "text.txt"}, 2);
  checkpoint({"diff", saved(2)}, 2);
}

TEST_F(Checkpoint, WeightsBeginAnotherRunInEitherLayout) {
  run({save_});
  const double last = losses_of(last_row(folder_)).at(7);
  checkpoint({"export", "saved", "llama/"});
  EXPECT_THAT(folder_.read("llama/config.json"), HasSubstr("LlamaForCausalLM"));
  std::set<double> first;
  for (const char* from : {"model.init_from=saved/step-00000008", "model.init_from=llama",
                           "model.init_from=llama/model.safetensors"}) {
    run({from});
    first.insert(losses_of(last_row(folder_)).at(0));
  }
  EXPECT_EQ(first.size(), 1u) << "the same weights";
  EXPECT_NEAR(*first.begin(), last, 0.5) << "trained ones, and another batch";
  const CommandResult other = run({"model.init_from=llama", "model.heads=4"}, 2);
  EXPECT_THAT(other.err, HasSubstr("num_attention_heads 2, and the model: section means 4"));
  must_run(folder_, {"verify", "e.yaml", "--set", "model.init_from=llama"});
  checkpoint({"export", "saved", "llama"}, 2);  // it is there already
}

TEST_F(Checkpoint, WritesTheTextThatItsRunWrote) {
  run({save_, "train.sample={every: 8, prompt: word, tokens: 30}"});
  const std::string text = last_row(folder_)["ranks"][0]["texts"].back()["text"];
  const auto sample = [this](Words words) {
    words.insert(words.begin(), "sample");
    return run_ddprun(folder_, words);
  };
  const std::string seed = std::to_string(0x6576616c756174);  // train.sample's
  EXPECT_EQ(sample({"saved", "--prompt", "word", "--tokens", "30", "--seed", seed}).out,
            text + "\n");
  EXPECT_NE(sample({"saved", "--prompt", "word", "--tokens", "30", "--seed", "1"}).out,
            text + "\n");
  EXPECT_THAT(sample({"saved", "--prompt", ""}).err, HasSubstr("there is nothing to go on with"));
  EXPECT_THAT(sample({"nowhere", "--prompt", "a"}).err, HasSubstr("there is no checkpoint"));
  EXPECT_THAT(sample({"saved/latest", "--prompt", "a"}).err, HasSubstr("got: no folder"));
  for (const char* beyond : {"-1", "99999999999999999999"}) {
    EXPECT_THAT(sample({"saved", "--prompt", "a", "--seed", beyond}).err,
                HasSubstr("is no whole number of 64 bits, from 0"));
  }
  EXPECT_EQ(sample({"saved", "saved", "--prompt", "a"}).status, 2);
}

}  // namespace
}  // namespace ddprun::test
