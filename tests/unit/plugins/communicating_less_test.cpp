// Strategies whose ranks get less than the mean gradient: powersgd, local_sgd and gossip beside
// their papers' formulas, in double.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <memory>

#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/parallel/consensus.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/proof.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::registry;
using test::strategy_of;

using test::plain_sgd;

/// Of rank `rank` in step `step`: the gradient of a matrix (12, 9), which is never of low rank.
at::Tensor gradient(int rank, int step) {
  const at::Tensor x = at::arange(12, at::kDouble).unsqueeze(1);
  const at::Tensor y = at::arange(9, at::kDouble);
  return at::sin(x * y * 0.7 + 1.3 * rank + 0.6 * step) + 0.1 * rank;
}

std::vector<NamedTensor> matrix_and_vector() {
  std::vector<NamedTensor> parameters = {{"matrix", at::zeros({12, 9})}, {"vector", at::ones({5})}};
  for (auto& parameter : parameters) parameter.tensor.requires_grad_(true);
  return parameters;
}

/// One rank that trains the matrix and the vector with a strategy and SGD.
struct Rank {
  Rank(ProcessGroup& group, const std::string& yaml)
      : number(group.rank()),
        strategy(strategy_of(yaml)),
        ddp(parameters, group, *strategy, test::fp32(), plain_sgd()) {}

  /// One step whose gradients are gradient(number, step), and number + 1 for the vector.
  void step(int step, double lr) {
    const Loss loss = ddp.forward([&] {
      return (parameters[0].tensor * gradient(number, step).to(at::kFloat)).sum() +
             parameters[1].tensor.sum() * static_cast<double>(number + 1);
    });
    ddp.backward(loss);
    ddp.step(lr, 0);
  }

  const at::Tensor& matrix() const { return parameters[0].tensor; }

  int number;
  std::shared_ptr<Strategy> strategy;
  std::vector<NamedTensor> parameters = matrix_and_vector();
  DataParallel ddp;
};

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach().to(at::kDouble) - b).abs().max().item<double>();
}

at::Tensor mean_gradient(int step) { return (gradient(0, step) + gradient(1, step)) / 2; }

TEST(PowerSgd, WhatWasSentAndTheErrorFeedbackAreAllGradients) {
  test::run_ranks(2, [](ProcessGroup& group) {
    Rank rank(group, "{name: powersgd, rank: 2}");
    at::Tensor all = at::zeros({12, 9}, at::kDouble);
    const int steps = 6;
    for (int i = 0; i < steps; ++i) {
      rank.step(i, /*lr=*/1);
      all += mean_gradient(i);
    }
    // Parameters began at zero, and lr is 1.
    const Range range = rank.ddp.buffers().range(1);
    at::Tensor error =
        rank.ddp.context().carried().error_feedback.narrow(0, range.begin, range.size()).clone();
    group.all_reduce(error, ReduceOp::avg, "error").wait();
    const at::Tensor sent = -rank.matrix().detach();
    EXPECT_LT(difference(sent + error.view({12, 9}), all), 1e-5);
    EXPECT_GT(error.abs().max().item<double>(), 0.1) << "nothing is fed back";
    EXPECT_LT(difference(rank.parameters[1].tensor, at::full({5}, 1 - 1.5 * steps)), 1e-6);
  });
}

TEST(PowerSgd, SendsTheNearestMatrixOfItsRankOnceTheFactorsAreWarm) {
  test::run_ranks(2, [](ProcessGroup& group) {
    Rank rank(group, "{name: powersgd, rank: 3, error_feedback: false}");
    for (int i = 0; i < 200; ++i) rank.step(0, /*lr=*/0);
    rank.step(0, /*lr=*/1);
    const auto [u, s, v] = at::linalg_svd(mean_gradient(0), /*full_matrices=*/false);
    const at::Tensor nearest =
        at::mm(u.narrow(1, 0, 3) * s.narrow(0, 0, 3), v.narrow(0, 0, 3));  // Eckart and Young
    EXPECT_LT(difference(-rank.matrix(), nearest), 1e-4);
  });
}

TEST(PowerSgd, ATransposedMatrixIsTheMatrixThatTheModelReads) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const auto strategy = strategy_of("{name: powersgd, rank: 1, error_feedback: false}");
    const at::Tensor matrix = at::zeros({9, 12}).t().requires_grad_();
    DataParallel ddp({{"matrix", matrix}}, group, *strategy, test::fp32(), plain_sgd());
    const at::Tensor of_rank_1 = at::arange(1, 13, at::kFloat).sin().outer(at::arange(9).cos());
    ddp.backward(ddp.forward([&] { return (matrix * of_rank_1).sum(); }));
    ddp.step(1.0, 0);
    EXPECT_LT(difference(matrix, -of_rank_1.to(at::kDouble)), 1e-5);
  });
}

TEST(PowerSgd, WithoutWarmStartEachStepBeginsAnew) {
  test::run_ranks(1, [](ProcessGroup& group) {
    Rank rank(group, "{name: powersgd, rank: 3, warm_start: false, error_feedback: false}");
    for (int i = 0; i < 200; ++i) rank.step(0, /*lr=*/0);  // after which warm ones change no more
    std::vector<at::Tensor> sent;
    for (int i = 0; i < 2; ++i) {
      const at::Tensor before = rank.matrix().detach().clone();
      rank.step(0, /*lr=*/1);
      sent.push_back(before - rank.matrix().detach());
    }
    EXPECT_GT(difference(sent[1], sent[0]), 1e-3);
  });
}

TEST(PowerSgd, SendsWholeWhatIsNotWorthCompressing) {
  const auto strategy = strategy_of("{name: powersgd, rank: 5}");  // 5 (12 + 9) is nearly 12 x 9
  const ParameterLayout layout(matrix_and_vector(), {}, KernelSet::reference, 2);
  std::vector<std::int64_t> bytes;
  for (const auto& each : strategy->plan(layout, 0).collectives) bytes.push_back(each.bytes);
  EXPECT_THAT(bytes, ElementsAre(4 * 5, 4 * 5 * 12, 4 * 5 * 9));
  const auto more = strategy_of("{name: powersgd, rank: 6}");
  ASSERT_EQ(more->plan(layout, 0).collectives.size(), 1u);
  EXPECT_EQ(more->plan(layout, 0).collectives[0].bytes, 4 * (5 + 12 * 9));
}

TEST(PowerSgd, TheProofLeavesNothingBehind) {
  std::vector<at::Tensor> ends;
  for (const bool proves : {false, true}) {
    ends.push_back(test::of_ranks(2, [&](ProcessGroup& group) {
      Rank rank(group, "{name: powersgd, rank: 2}");
      for (int i = 0; i < 3; ++i) {
        rank.step(i, 0.5);
        if (!proves) continue;
        const Check check = check_integer_gradients(rank.ddp, group, {.number = std::uint64_t(i)});
        EXPECT_EQ(check.status, CheckStatus::declared) << check.detail;
      }
      return rank.matrix().detach().clone();
    })[0]);
  }
  EXPECT_TRUE(at::equal(ends[0], ends[1]));
}

TEST(PowerSgd, WithoutErrorFeedbackTheProofSaysThatTheRestIsLost) {
  test::run_ranks(2, [](ProcessGroup& group) {
    Rank rank(group, "{name: powersgd, rank: 1, error_feedback: false}");
    const Check check = check_integer_gradients(rank.ddp, group);
    EXPECT_EQ(check.status, CheckStatus::declared);
    EXPECT_THAT(check.detail, HasSubstr("what is not sent of them is lost"));
  });
}

TEST(LocalSgd, EveryStepIsTheMeanOfTheGradients) {
  test::run_ranks(2, [](ProcessGroup& group) {
    Rank rank(group, "{name: local_sgd, every: 1}");
    at::Tensor expected = at::zeros({12, 9}, at::kDouble);
    for (int i = 0; i < 4; ++i) {
      rank.step(i, 0.5);
      expected -= 0.5 * mean_gradient(i);
      EXPECT_LT(difference(rank.matrix(), expected), 1e-5);
    }
  });
}

TEST(LocalSgd, AveragesByTheOuterOptimizer) {
  test::run_ranks(2, [](ProcessGroup& group) {
    Rank rank(group, "{name: local_sgd, every: 3, outer_lr: 0.7, outer_momentum: 0.9}");
    at::Tensor met = at::zeros({12, 9}, at::kDouble), momentum = met.clone();
    at::Tensor own = met.clone();
    at::Tensor way = met.clone();  // the mean of all ranks'
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(rank.ddp.context().meeting() != Meeting::none, i % 3 == 0);
      rank.step(i, 0.5);
      own -= 0.5 * gradient(group.rank(), i);
      way -= 0.5 * mean_gradient(i);
      if (i % 3 == 2) {
        momentum = 0.9 * momentum + way;
        met = met + 0.7 * (way + 0.9 * momentum);
        own = met.clone();
        way.zero_();
      }
      EXPECT_LT(difference(rank.matrix(), own), 1e-5) << "step " << i;
    }
  });
}

TEST(Gossip, EachRankAveragesWithItsPeerOfTheStep) {
  test::run_ranks(4, [](ProcessGroup& group) {
    Rank rank(group, "{name: gossip}");
    std::vector<at::Tensor> all(4, at::zeros({12, 9}, at::kDouble));  // of each rank
    for (int i = 0; i < 4; ++i) {
      rank.step(i, 0.5);
      for (int r = 0; r < 4; ++r) all[r] = all[r] - 0.5 * gradient(r, i);
      const int bit = i % 2 == 0 ? 1 : 2;
      const std::vector<at::Tensor> before = all;
      for (int r = 0; r < 4; ++r) all[r] = (before[r] + before[r ^ bit]) / 2;
      EXPECT_LT(difference(rank.matrix(), all[group.rank()]), 1e-5) << "step " << i;
      EXPECT_EQ(check_parameters_equal(rank.ddp, group).status, CheckStatus::declared);
    }
    EXPECT_GT(difference(rank.matrix(), all[group.rank() ^ 1]), 1e-3) << "the last went by bit 2";
  });
}

TEST(LocalSgd, ConsensusDistanceIsThatOfTheRanksFromTheirMean) {
  test::run_ranks(2, [](ProcessGroup& group) {
    Rank rank(group, "{name: local_sgd, every: 2}");
    EXPECT_LT(*consensus_distance(rank.ddp), 1e-12) << "all begin alike";
    rank.step(0, 0.5);
    const at::Tensor mean = -0.5 * mean_gradient(0);
    const at::Tensor apart = -0.5 * gradient(0, 0) - mean;  // the other rank's is its opposite
    const auto square = [](const at::Tensor& x) { return (x * x).sum().item<double>(); };
    EXPECT_NEAR(*consensus_distance(rank.ddp),  // the vectors are 0.5 and 0
                std::sqrt((square(apart) + 5 * 0.0625) / (square(mean) + 5 * 0.0625)), 1e-6);
    rank.step(1, 0.5);
    EXPECT_LT(*consensus_distance(rank.ddp), 1e-12) << "they have met";
    Rank averaged(group, "{name: flat}");
    EXPECT_FALSE(consensus_distance(averaged.ddp)) << "its ranks never differ";
  });
}

TEST(LocalSgd, PlansTheStepsInWhichRanksAverage) {
  Experiment experiment = test::small_experiment(2);
  experiment.plugin(PluginKind::strategy).name = "local_sgd";
  experiment.plugin(PluginKind::strategy).options = parse_yaml("{every: 2}", "test.yaml");
  experiment.plugin(PluginKind::precision).name = "bf16_mixed";
  test::run_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    for (int i = 0; i < 4; ++i) {
      trainer.step(i);
      const bool averages = i % 2 == 1;
      EXPECT_EQ(trainer.planned().size(), averages ? 1u : 0u);
      EXPECT_EQ(compare_with_plan(trainer.last_records(), trainer.planned()), "");
      const Check equal = check_parameters_equal(trainer.data_parallel(), group);
      EXPECT_EQ(equal.status, averages ? CheckStatus::passed : CheckStatus::declared)
          << equal.detail;
      EXPECT_EQ(check_compute_copy(trainer.data_parallel(), group).status, CheckStatus::passed);
    }
  });
}

/// After three steps: the parameters of rank 0, and what the last step sent.
std::pair<at::Tensor, double> trained(const std::string& strategy,
                                      const std::string& reduce_dtype) {
  Experiment experiment = test::small_experiment(2);
  experiment.plugin(PluginKind::strategy).name = strategy;
  experiment.plugin(PluginKind::precision).options =
      parse_yaml("{reduce_dtype: " + reduce_dtype + "}", "test.yaml");
  return test::of_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    Sample last = trainer.step(0);
    for (int i = 1; i < 3; ++i) last = trainer.step(i);
    EXPECT_EQ(compare_with_plan(trainer.last_records(), trainer.planned()), "");
    EXPECT_EQ(check_integer_gradients(trainer.data_parallel(), group).status, CheckStatus::passed);
    const at::Tensor parameters =
        whole_parameters(trainer.data_parallel(), trainer.data_parallel().buffers().all());
    return std::pair(parameters.clone(), last[training().bytes]);
  })[0];
}

TEST(ReduceDtype, SendsHalfOfFloat32GradientsByAnyStrategy) {
  for (const char* strategy : {"flat", "bucketed", "zero1", "zero2", "fsdp"}) {
    SCOPED_TRACE(strategy);
    const auto [whole, bytes] = trained(strategy, "float32");
    const auto [rounded, fewer] = trained(strategy, "bfloat16");
    const double parameters = 4.0 * static_cast<double>(whole.numel());
    EXPECT_NEAR(bytes - fewer, parameters / 2, 1);  // of the gradients; parameters as before
    EXPECT_FALSE(at::equal(rounded, whole));
    EXPECT_LT((rounded - whole).abs().max().item<double>(), 1e-3);
  }
}

}  // namespace
}  // namespace ddprun
