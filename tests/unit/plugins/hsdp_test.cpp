// Sharding within groups of ranks: what ranks hold, what travels, that groups stay equal.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <tuple>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/proof/proof.h"
#include "ddprun/proof/update_proof.h"
#include "support/matchers.h"
#include "support/passing_strategy.h"
#include "support/plugin_registry.h"
#include "support/proved_training.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::registry;

Experiment experiment_of(const std::string& strategy, const std::string& precision, int ranks) {
  Experiment experiment = test::sharding_experiment(strategy, precision, ranks);
  training(experiment).optimizer.clip_norm = 0.5;
  training(experiment).train.global_batch = 12;
  training(experiment).train.accumulate = 2;
  return experiment;
}

struct Outcome {
  at::Tensor parameters = {};
  std::string off_plan = {};
  std::vector<Check> checks = {};
  std::int64_t bytes = 0;  ///< of buffers and moments
  double wire = 0;         ///< bytes sent in the last step
  double norm = 0;         ///< of the last step's gradients
};

/// Rank 0's, after three steps with checks.
Outcome train(const Experiment& experiment, BackendKind backend) {
  return test::of_ranks(
      static_cast<int>(experiment.world.size),
      [&](ProcessGroup& group) {
        Trainer trainer(experiment, make_plugins(registry(), experiment), group);
        for (int step = 0; step < 2; ++step) trainer.step(step);
        UpdateProof update(trainer.data_parallel(), training(experiment).optimizer, /*draw=*/1);
        const Sample last = trainer.step(2, [&] { update.keep_gradients(); });
        DataParallel& ddp = trainer.data_parallel();
        Outcome mine{.off_plan = compare_with_plan(trainer.last_records(), trainer.planned()),
                     .bytes = ddp.buffers().allocated_bytes() + ddp.optimizer().state_bytes(),
                     .wire = wire_bytes(trainer.last_records()),
                     .norm = last[training().gradient_norm]};
        mine.checks = {update.finish(group), update.finish_formula(group, mine.norm),
                       check_compute_copy(ddp, group), check_parameters_equal(ddp, group),
                       check_integer_gradients(ddp, group, {.micro_batches = 2})};
        mine.parameters = whole_parameters(ddp, ddp.buffers().all()).clone();
        return mine;
      },
      {.backend = backend, .timeout_s = 30})[0];
}

/// shard_ranks, ranks, precision, backend.
class Hsdp : public testing::TestWithParam<std::tuple<int, int, const char*, BackendKind>> {};

TEST_P(Hsdp, TrainsAsFsdpDoesWithLessBetweenGroups) {
  const auto [shard_ranks, ranks, precision, backend] = GetParam();
  const Outcome fsdp = train(experiment_of("{name: fsdp}", precision, ranks), backend);
  const std::string name = "{name: hsdp, shard_ranks: " + std::to_string(shard_ranks) + "}";
  const Outcome hsdp = train(experiment_of(name, precision, ranks), backend);
  EXPECT_EQ(hsdp.off_plan, "");
  for (const Check& check : hsdp.checks) {
    EXPECT_EQ(check.status, CheckStatus::passed) << check.name << ": " << check.detail;
  }
  // Means are added in another order, and AdamW makes whole steps of what is left of nothing.
  const double difference = (hsdp.parameters - fsdp.parameters).abs().mean().item<double>();
  EXPECT_LT(difference, precision == std::string("fp32") ? 1e-6 : 1e-4);
  EXPECT_GT(hsdp.norm, 0);
  EXPECT_NEAR(hsdp.norm, fsdp.norm, 0.02 * fsdp.norm) << "each slice counts once";
  if (shard_ranks == ranks) {
    EXPECT_TRUE(at::equal(hsdp.parameters, fsdp.parameters));
    EXPECT_EQ(hsdp.bytes, fsdp.bytes);
    EXPECT_EQ(hsdp.wire, fsdp.wire);
  } else {
    EXPECT_GT(hsdp.bytes, fsdp.bytes);
    EXPECT_LT(hsdp.wire, fsdp.wire) << "gathers are of fewer ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, Hsdp,
                         testing::Values(std::tuple{2, 4, "fp32", BackendKind::gloo},
                                         std::tuple{2, 4, "fp32", BackendKind::shm},
                                         std::tuple{2, 4, "bf16_mixed", BackendKind::shm},
                                         std::tuple{1, 2, "fp32", BackendKind::shm},
                                         std::tuple{3, 6, "fp32", BackendKind::gloo},
                                         std::tuple{2, 2, "bf16_mixed", BackendKind::gloo}),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_of_" +
                                  std::to_string(std::get<1>(info.param)) + "_" +
                                  std::get<2>(info.param) + "_" + name_of(std::get<3>(info.param));
                         });

/// The plan of hsdp with two groups, and the work of fsdp within each.
class Apart : public test::PassingStrategy {
 public:
  Apart() : PassingStrategy(test::strategy_of("{name: fsdp}")) {}
  Plan plan(const ParameterLayout& layout, int rank) const override {
    return test::strategy_of("{name: hsdp, shard_ranks: 2}")->plan(layout, rank);
  }
};

TEST(HsdpProof, GroupsThatTrainApartAreFound) {
  test::run_ranks(4, [](ProcessGroup& group) {
    const Experiment experiment = experiment_of("{name: fsdp}", "fp32", 4);
    Apart apart;
    Trainer trainer(experiment, test::plugins_with(apart, registry(), experiment), group);
    trainer.step(0);
    const Check integers = check_integer_gradients(trainer.data_parallel(), group);
    EXPECT_EQ(integers.status, CheckStatus::failed);
    EXPECT_THAT(integers.detail, HasSubstr("differ from the exact mean"));
    const Check equal = check_parameters_equal(trainer.data_parallel(), group);
    EXPECT_EQ(equal.status, CheckStatus::failed);
    EXPECT_THAT(equal.detail, HasSubstr("is not that of rank 0 on ranks 2, 3"));
  });
}

TEST(ReshardAfterForward, UnitsThatStayGiveTheSameBitsWithFewerGathers) {
  for (const char* precision : {"fp32", "bf16_mixed"}) {
    for (const char* name : {"fsdp", "hsdp, shard_ranks: 2"}) {
      const std::string start = std::string("{name: ") + name;
      const Outcome lets_go = train(experiment_of(start + "}", precision, 4), BackendKind::shm);
      const Outcome keeps = train(
          experiment_of(start + ", reshard_after_forward: false}", precision, 4), BackendKind::shm);
      EXPECT_TRUE(at::equal(keeps.parameters, lets_go.parameters)) << name;
      EXPECT_EQ(keeps.off_plan, "") << name;
      for (const Check& check : keeps.checks) {
        EXPECT_EQ(check.status, CheckStatus::passed) << check.name << ": " << check.detail;
      }
      EXPECT_LT(keeps.wire, lets_go.wire) << name;
      EXPECT_GT(keeps.bytes, lets_go.bytes) << name;
    }
  }
}

TEST(ReshardAfterForward, UnitsThatStayAreComputedAgainInGroupsOfAnySize) {
  Experiment plain = experiment_of("{name: fsdp, reshard_after_forward: false}", "fp32", 2);
  training(plain).model.layers = 4;
  const Outcome expected = train(plain, BackendKind::shm);
  for (const std::int64_t groups : {1, 2, 4}) {
    Experiment again = plain;
    training(again).model.recompute.groups = groups;
    const Outcome got = train(again, BackendKind::shm);
    EXPECT_TRUE(at::equal(got.parameters, expected.parameters)) << groups;
    EXPECT_EQ(got.off_plan, "") << groups;
  }
  const auto refusal = test::strategy_of("{name: fsdp}")->unsupported({.recomputed_units = 2});
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->expected, HasSubstr("reshard_after_forward false"));
}

TEST(HsdpPlan, UnevenHostsAreRefusedOnAllRanks) {
  const auto store = make_thread_store();
  const auto connect = [&](int rank) {  // two ranks on one host, and one on another
    RankInfo info;
    info.rank = rank;
    info.world_size = 3;
    info.local_rank = rank % 2;
    info.local_size = rank < 2 ? 2 : 1;
    return connect_thread(store, info, {.backend = BackendKind::gloo, .timeout_s = 30},
                          rank < 2 ? "a" : "b");
  };
  test::run_threads(3, connect, [](ProcessGroup& group) {
    const Experiment experiment = experiment_of("{name: hsdp}", "fp32", 3);
    EXPECT_THAT(test::error_of<ConfigError>(
                    [&] { Trainer(experiment, make_plugins(registry(), experiment), group); }),
                AllOf(HasSubstr("the ranks cannot be cut into groups of one size"),
                      HasSubstr("3 ranks, which plan groups of 2, 2, 1")));
  });
}

TEST(HsdpPlan, GroupsAreThoseOfAHostUnlessTheirSizeIsGiven) {
  const std::vector<NamedTensor> parameters = {{"a", at::ones({100}).requires_grad_()}};
  const ParameterLayout layout(parameters, {}, KernelSet::reference, 6, /*ranks_per_host=*/3);
  const auto by_host = test::strategy_of("{name: hsdp}");
  EXPECT_EQ(by_host->plan(layout, 4).holding.shards, 3);
  EXPECT_EQ(by_host->plan(layout, 4).holding.owned[0], layout.slice(layout.all(), 1, 3));
  EXPECT_EQ(test::strategy_of("{name: hsdp, shard_ranks: 2}")->plan(layout, 4).holding.shards, 2);
  const auto refusal =
      test::strategy_of("{name: hsdp, shard_ranks: 4}")->unsupported({.world_size = 6});
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->expected, HasSubstr("multiple of shard_ranks, 4"));
}

}  // namespace
}  // namespace ddprun
