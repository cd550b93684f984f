// Steps without memory: for ranks that never run, for attentions that need values, and against a
// machine's memory. tests/integration/account_test.cpp holds them against what runs take.
#include "ddprun/experiments/training/dry_step.h"

#include <algorithm>

#include "ddprun/model/model_parameters.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plugin_registry.h"
#include "support/sanitizers.h"

namespace ddprun::dry_step_test {
namespace {

using test::registry;

/// With plugins of that name.
Experiment experiment_of(const std::string& strategy, int ranks,
                         const std::string& attention = "eager") {
  Experiment experiment = test::small_experiment(ranks);
  training(experiment).train.global_batch = 0;
  training(experiment).train.batch_per_rank = 2;
  training(experiment).optimizer.name = OptimizerKind::adamw;
  experiment.plugin(PluginKind::strategy) = test::strategy_choice(strategy);
  experiment.plugin(PluginKind::attention) =
      test::choice_of(PluginKind::attention, "{name: " + attention + "}");
  return experiment;
}

std::int64_t moments_of(const Account& account) {
  return account.peak()->at_peak[MemoryCategory::moments];
}

class DryStep : public testing::Test {
 protected:
  void SetUp() override {
    if (test::kSanitized) GTEST_SKIP() << "a sanitizer's allocator may wait in a forked child";
  }
};

TEST_F(DryStep, IsOfAnyNumberOfRanks) {
  const Account few = dry_step(experiment_of("{name: zero1}", 2), registry());
  const Account many = dry_step(experiment_of("{name: zero1}", 1024), registry());
  EXPECT_EQ(few.unknown, "");
  EXPECT_EQ(many.unknown, "");
  EXPECT_EQ(many.ranks, 1024);
  // A rank has a slice of each unit, which the padding rounds up to 64 bytes.
  EXPECT_LT(moments_of(many), moments_of(few) / 50);
}

TEST_F(DryStep, OfManyEachIsAsByItself) {
  std::vector<Experiment> experiments;
  for (const char* strategy : {"flat", "zero1_cs336", "torch_ddp", "fsdp", "local_sgd", "naive"}) {
    experiments.push_back(experiment_of(std::string("{name: ") + strategy + "}", 3));
    experiments.push_back(experiments.back());
    training(experiments.back()).model.layers = 5000;
    experiments.push_back(experiment_of(std::string("{name: ") + strategy + "}", 4, "sdpa"));
  }
  std::vector<const Experiment*> all;
  for (const Experiment& each : experiments) all.push_back(&each);
  const std::vector<Account> accounts = dry_steps(all, registry());
  ASSERT_EQ(accounts.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(to_json(accounts[i]), to_json(dry_step(*all[i], registry()))) << i;
  }
  EXPECT_THAT(accounts[1].unknown, HasSubstr("takes 4096 layers at most"));
}

TEST_F(DryStep, IsOfTheRankThatHoldsMost) {
  // Whole parameters: the largest ones leave other ranks with less.
  const Account account = dry_step(experiment_of("{name: zero1_cs336}", 3), registry());
  EXPECT_EQ(account.unknown, "");
  const Account all = dry_step(experiment_of("{name: flat}", 3), registry());
  EXPECT_GE(3 * moments_of(account), moments_of(all));
}

TEST_F(DryStep, ANetworkHoldsWhatItHasNotAddedUp) {
  const auto peak = [](BackendKind backend, int ranks_per_host) {
    Experiment experiment = experiment_of("{name: zero1}", 4);
    experiment.world.comm.backend = backend;
    const Account account = dry_step(experiment, registry(), ranks_per_host);
    EXPECT_EQ(account.unknown, "");
    const auto phase = std::ranges::find(account.phases, "synchronize", &PhaseAccount::phase);
    return phase == account.phases.end() ? 0 : phase->at_peak.sum();
  };
  const std::int64_t shared = peak(BackendKind::automatic, 4);
  const std::int64_t received = peak(BackendKind::gloo, 4) - shared;
  const Account flat = dry_step(experiment_of("{name: flat}", 4), registry());
  EXPECT_NEAR(received, flat.peak()->at_peak[MemoryCategory::gradients], 0.01 * received)
      << "all gradients, none of which was waited for";
  EXPECT_NEAR(peak(BackendKind::automatic, 2) - shared, received, 0.01 * received)
      << "sums of a host, and what comes from the other";
  EXPECT_EQ(peak(BackendKind::shm, 4), shared);
}

TEST_F(DryStep, CountsTheOperationsOfAllProducts) {
  for (const KernelSet kernels : {KernelSet::fused, KernelSet::reference}) {
    for (const char* attention : {"flash", "sdpa"}) {
      Experiment experiment = experiment_of("{name: flat}", 2, attention);
      training(experiment).model.kernels = kernels;
      const Account account = dry_step(experiment, registry());
      EXPECT_EQ(account.unknown, "");
      const ModelConfig& model = training(experiment).model;
      const auto tokens = static_cast<double>(account.tokens);
      EXPECT_EQ(account.tokens, 2 * model.context_length);
      // Backward of both computes the scores again: five products where two gradients take four.
      const auto again = static_cast<double>(model.layers * model.d_model * model.context_length);
      EXPECT_NEAR(account.work.operations, tokens * (matmul_flops_per_token(model) + again), 1)
          << attention;
      training(experiment).model.recompute.form = RecomputeForm::every_block;
      EXPECT_GT(dry_step(experiment, registry()).work.operations, 1.2 * account.work.operations);
    }
  }
}

/// Per parameter of a matrix, in float32: error and gradient are added (8), read by two products
/// (8), made by one (4), copied (8), subtracted (8): 36 bytes, and the factors.
TEST_F(DryStep, CountsTheBytesOfAStrategysOwnWork) {
  const Account flat = dry_step(experiment_of("{name: flat}", 2), registry());
  const Account thin = dry_step(experiment_of("{name: powersgd, rank: 1}", 2), registry());
  const auto parameters = static_cast<double>(flat.collectives[0].bytes) / 4;
  EXPECT_NEAR(thin.work.bytes - flat.work.bytes, 36 * parameters, 5 * parameters);
  EXPECT_GT(flat.work.bytes, 16 * parameters) << "AdamW reads gradients, parameters and moments";
}

TEST_F(DryStep, KnowsWhenCollectivesAreEnqueuedAndAwaited) {
  const Account flat = dry_step(experiment_of("{name: flat}", 2), registry());
  ASSERT_EQ(flat.collectives.size(), 1u);
  EXPECT_EQ(flat.collectives[0].enqueued.operations, flat.work.operations) << "behind backward";
  const Account overlap = dry_step(experiment_of("{name: overlap}", 2), registry());
  EXPECT_LT(overlap.collectives[0].enqueued.operations, overlap.work.operations);
  EXPECT_EQ(overlap.collectives[0].awaited.operations, overlap.work.operations);
  const Account fsdp = dry_step(experiment_of("{name: fsdp}", 2), registry());
  EXPECT_EQ(fsdp.collectives[0].enqueued.operations, 0) << "the first unit is gathered before all";
  EXPECT_EQ(fsdp.collectives[0].awaited.operations, 0);
}

TEST_F(DryStep, KnowsWhichCollectivesCrossHosts) {
  const Account account =
      dry_step(experiment_of("{name: hsdp, shard_ranks: 4}", 8), registry(), /*ranks_per_host=*/4);
  for (const CollectiveAccount& each : account.collectives) {
    const bool shards = each.kind != CollectiveKind::all_reduce;
    EXPECT_EQ(each.ranks, shards ? 4 : 2);
    EXPECT_EQ(each.ranks_per_host, shards ? 4 : 1);
  }
}

TEST_F(DryStep, AsksAnAttentionThatNeedsValues) {
  const Account by_formula = dry_step(experiment_of("{name: flat}", 2, "sdpa"), registry());
  EXPECT_EQ(by_formula.unknown, "");
  const Experiment experiment = experiment_of("{name: flat}", 2, "sdpa, backend: math");
  EXPECT_THAT(dry_step(experiment, registry()).unknown,
              HasSubstr("the attention does not say what memory it takes"));
}

TEST_F(DryStep, IsHeldAgainstTheMachine) {
  Experiment experiment = experiment_of("{name: flat}", 2);
  const auto refusal = [&](std::int64_t available) {
    return test::error_of([&] { check_memory(experiment, registry(), 2, available); });
  };
  EXPECT_EQ(refusal(std::int64_t{1} << 40), "no error");
  EXPECT_THAT(refusal(1'000'000), HasSubstr("more memory than this machine has"));
  experiment.world.memory_check = false;
  EXPECT_EQ(refusal(1'000'000), "no error");
  experiment.world.memory_check = true;
  experiment.world.memory_limit_gb = 0.001;
  EXPECT_EQ(refusal(1'000'000), "no error") << "the limit is what was asked about";
}

TEST_F(DryStep, ManyRanksOfNextToNothingFitTheMachine) {
  const Experiment experiment = experiment_of("{name: flat}", 256);
  const auto refusal = [&](double available) {
    return test::error_of(
        [&] { check_memory(experiment, registry(), 256, static_cast<std::int64_t>(available)); });
  };
  EXPECT_EQ(refusal(16e9), "no error");
  EXPECT_THAT(refusal(0.99 * 256 * rank_bytes(0)), HasSubstr("256 ranks of 0.0"));
}

}  // namespace
}  // namespace ddprun::dry_step_test
