// How far the proofs reach: into each micro-batch, to the last element, and to faults that are
// small.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/proof/mean_proof.h"
#include "ddprun/proof/proof.h"
#include "support/matchers.h"
#include "support/precision_of.h"
#include "support/thread_ranks.h"
#include "unit/proof/averaging_strategies.h"

namespace ddprun::proof_reach_test {
namespace {

using test::OneByOne;
using test::SendsHalf;

class LosesAMicroBatch final : public OneByOne, public UnitListener {
 public:
  /// Not the last one.
  explicit LosesAMicroBatch(std::int64_t lost) : lost_(lost) {}
  void setup(StrategyContext& context) override {
    OneByOne::setup(context);
    listen(context, *this);
  }
  void before_forward(MicroBatch micro_batch) override {
    const at::Tensor sums = gradients();
    if (micro_batch.index == lost_) kept_ = lost_ == 0 ? at::zeros_like(sums) : sums.clone();
    if (micro_batch.index == lost_ + 1) sums.copy_(kept_);
  }

 private:
  std::int64_t lost_;
  at::Tensor kept_;
};

class Multiplies final : public OneByOne {
 public:
  explicit Multiplies(double factor) : factor_(factor) {}
  void finish_backward() override {
    OneByOne::finish_backward();
    gradients().mul_(factor_);
  }

 private:
  double factor_;
};

/// Trains one parameter.
struct Rank {
  Rank(ProcessGroup& group, Strategy& strategy, std::int64_t elements = 300,
       BufferDtypes dtypes = {})
      : precision(dtypes),
        weight(at::ones({elements}).requires_grad_()),
        ddp({{"weight", weight}}, group, strategy, precision, OptimizerConfig{},
            {.kernels = KernelSet::fused}) {}

  test::PrecisionOf precision;
  at::Tensor weight;
  DataParallel ddp;
};

TEST(IntegerGradients, AreOfEachMicroBatchInTurn) {
  for (std::int64_t lost = 0; lost < 4; ++lost) {
    test::run_ranks(2, [lost](ProcessGroup& group) {
      LosesAMicroBatch strategy(lost);
      Rank rank(group, strategy);
      bool found = false;
      for (std::uint64_t number = 0; number < 6; ++number) {
        const IntegerRound round = {.micro_batches = 5, .number = number};
        found |= check_integer_gradients(rank.ddp, group, round).status == CheckStatus::failed;
      }
      EXPECT_TRUE(found) << "of micro-batch " << lost;
    });
  }
}

TEST(IntegerGradients, OfALossyStrategyLoseNoThousandth) {
  for (const double kept : {1.0, 0.998}) {
    test::run_ranks(2, [kept](ProcessGroup& group) {
      SendsHalf strategy(kept);
      Rank rank(group, strategy);
      EXPECT_EQ(check_integer_gradients(rank.ddp, group).status,
                kept == 1 ? CheckStatus::declared : CheckStatus::failed);
    });
  }
}

/// The check of a step's own gradients.
CheckStatus averaged(ProcessGroup& group, Strategy& strategy) {
  Rank rank(group, strategy);
  MeanProof proof(rank.ddp, /*draw=*/3);
  rank.ddp.backward(rank.ddp.forward([&] { return rank.weight.sum() * (group.rank() + 1); }));
  proof.keep_means();
  rank.ddp.step(0.1, 0);
  return proof.finish(group).status;
}

TEST(GradientsAveraged, AreTheMeanButForSomeRoundings) {
  for (const double off : {0.0, 0x1p-19}) {
    test::run_ranks(2, [off](ProcessGroup& group) {
      Multiplies strategy(1 + off);
      EXPECT_EQ(averaged(group, strategy), off == 0 ? CheckStatus::passed : CheckStatus::failed);
    });
  }
}

TEST(GradientsAveraged, OfALossyStrategyLoseNoThousandth) {
  for (const double kept : {1.0, 0.998}) {
    test::run_ranks(2, [kept](ProcessGroup& group) {
      SendsHalf strategy(kept);
      EXPECT_EQ(averaged(group, strategy), kept == 1 ? CheckStatus::passed : CheckStatus::failed);
    });
  }
}

TEST(ParametersEqual, ToTheLastOfManyElements) {
  constexpr std::int64_t kMany = (16 << 20) + 1;  // that are hashed at a time, and one
  test::run_ranks(2, [](ProcessGroup& group) {
    OneByOne strategy;
    Rank rank(group, strategy, kMany, {.compute = at::kBFloat16});
    const FlatBuffers& buffers = rank.ddp.buffers();
    if (group.rank() == 1) buffers.parameters({kMany - 1, kMany}).detach().fill_(3);
    EXPECT_EQ(check_parameters_equal(rank.ddp, group).status, CheckStatus::failed);
    EXPECT_THAT(check_compute_copy(rank.ddp, group).detail,
                HasSubstr("rank 1: 1 of 16,777,217 elements of weight"));
  });
}

TEST(Plan, OfAnExactMeanSendsAllBytesOfTheGradients) {
  const FlatBuffers buffers({{"weight", at::ones({100}).requires_grad_()}});
  std::vector<CollectiveRecord> records(2);
  records[0].bytes = 300;
  records[1].bytes = 100;
  EXPECT_EQ(too_few_bytes(records, buffers), "");
  records[1].bytes = 99;
  EXPECT_THAT(too_few_bytes(records, buffers),
              HasSubstr("collectives of 399 bytes cannot average 400 bytes of gradients"));
}

}  // namespace
}  // namespace ddprun::proof_reach_test
