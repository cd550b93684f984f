// The contract of what plugins carry from step to step: a run that is cut between two steps and
// goes on from its checkpoint has the losses and the parameters of one that was not, bit for bit.
#include <ATen/Parallel.h>

#include <map>
#include <vector>

#include "combinations.h"
#include "ddprun/experiments/training/resumption.h"
#include "ddprun/experiments/training/run_saver.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/proof/proof.h"
#include "plugins_under_test.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

constexpr std::int64_t kCut = 3;

/// What a run did, from its first step on.
struct Tail {
  std::map<std::int64_t, double> losses;  // by step
  std::uint64_t parameters = 0;
  CheckStatus resumed = CheckStatus::passed;
  friend bool operator==(const Tail&, const Tail&) = default;
};

Tail train_from_checkpoint(const Experiment& experiment, ProcessGroup& group) {
  at::set_num_threads(1);
  auto resumed = Resumption::find(experiment);
  const Beginning beginning = resumed ? resumed->beginning() : Beginning();
  Trainer trainer(experiment, make_plugins(registry(), experiment), group, beginning);
  RunSaver saver(experiment, trainer, group, resumed ? resumed->folder() : "");
  Tail out;
  if (resumed) out.resumed = resumed->read(experiment, trainer, group).status;
  for (std::int64_t step = trainer.steps().first; step < trainer.steps().end; ++step) {
    out.losses[step] = trainer.step(step)[training().loss];
    saver.after_step(step);
  }
  for (const SavedCheckpoint& each : saver.saved()) EXPECT_EQ(each.failure, "");
  out.parameters = hash_parameters(trainer.data_parallel());
  return out;
}

class ResumedRun : public testing::TestWithParam<Combination> {
 protected:
  std::vector<Tail> train_ranks(const Experiment& experiment) const {
    return test::of_ranks(
        GetParam().ranks,
        [&](ProcessGroup& group) { return train_from_checkpoint(experiment, group); },
        experiment.world.comm);
  }
};

TEST_P(ResumedRun, IsTheRunThatWasNotCut) {
  const test::TemporaryFolder folder;
  Experiment whole = experiment_of(GetParam());
  TrainingConfig& config = training(whole);
  config.optimizer = OptimizerConfig{};  // adamw
  config.optimizer.lr = 3e-3;
  if (!supported(whole)) GTEST_SKIP() << "a plugin refuses adamw";
  config.train.steps = 5;
  config.train.checkpoint = {.every = kCut, .keep = 0, .path = folder.path() / "checkpoints"};
  const std::vector<Tail> expected = train_ranks(whole);
  Experiment rest = whole;
  training(rest).train.checkpoint = {};
  training(rest).train.resume_from = folder.path() / "checkpoints" / checkpoint_name(kCut);
  const std::vector<Tail> got = train_ranks(rest);
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    Tail tail = expected[rank];
    std::erase_if(tail.losses, [](const auto& loss) { return loss.first < kCut; });
    EXPECT_EQ(got[rank].resumed, CheckStatus::passed);
    EXPECT_EQ(got[rank].losses, tail.losses) << "rank " << rank;
    EXPECT_EQ(got[rank].parameters, tail.parameters) << "rank " << rank;
  }
}

/// What a plugin carries does not depend on the backend: those over gloo alone are left out.
std::vector<Combination> that_carry() {
  std::vector<Combination> all = combinations();
  std::erase_if(all, [](const Combination& one) {
    return one.backend == BackendKind::gloo && one.strategy_options.map.empty();
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Plugins, ResumedRun, testing::ValuesIn(that_carry()),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace ddprun
