// A model of two parameters whose own gradients are wrong in one way.
#include "ddprun/proof/gradient_proof.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ddprun/plugin/strategy.h"
#include "support/precision_of.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

class ExchangesNothing : public Strategy {
 public:
  int backwards = 0;  // that it finished
  at::Tensor carried = at::zeros({1});

 private:
  Plan plan(const ParameterLayout&, int) const override { return {.agreement = Agreement::none}; }
  void setup(StrategyContext& context) override {
    deviations(context).carries({.tensors = {carried}});
  }
  void finish_backward() override {
    ++backwards;
    carried.add_(1);
  }
};

using Added = std::function<double()>;
double nothing() { return 0; }

constexpr double kRounded = 1e-4;

/// The check on two ranks. Gradients of the first parameter are `right` times those of its squares,
/// which PyTorch's operators round to kRounded more. On rank 1 the model computes them `own` times,
/// and a loss to which something is `added`.
Check check_with(double own, double right = 1, at::ScalarType reduce = at::kFloat,
                 const Added& added = nothing) {
  const auto checks = test::of_ranks(2, [&](ProcessGroup& group) {
    ExchangesNothing strategy;
    test::PrecisionOf precision({.reduce = reduce});
    std::vector<NamedTensor> parameters = {{"first", at::ones({40})}, {"second", at::ones({7})}};
    for (NamedTensor& parameter : parameters) parameter.tensor.requires_grad_(true);
    DataParallel ddp(parameters, group, strategy, precision, OptimizerConfig{});
    const auto loss = [&](double times, const Added& more) {
      return [&, times] {
        const at::Tensor squares = parameters[0].tensor.pow(2).sum();
        return times * squares + (1 - times) * squares.detach() +
               parameters[1].tensor.pow(3).sum() + more();
      };
    };
    const bool other = group.rank() == 1;
    const at::Tensor before = parameters[0].tensor.detach().clone();
    const Check check =
        check_gradients_computed(ddp, group,
                                 {.own = loss(other ? own : right, other ? added : nothing),
                                  .plain = loss(right + kRounded, nothing),
                                  .exact = loss(right, nothing)},
                                 5);
    EXPECT_EQ(strategy.backwards, 1) << "the reference does not travel";
    EXPECT_EQ(strategy.carried.item<float>(), 0);
    EXPECT_FALSE(ddp.buffers().parameter(0).grad().defined());
    EXPECT_TRUE(at::equal(parameters[0].tensor, before));
    return check;
  });
  EXPECT_EQ(checks[0].status, checks[1].status);
  return checks[0];
}

TEST(GradientsComputed, PassWhereTheyAreEqual) {
  const Check check = check_with(1);
  EXPECT_EQ(check.status, CheckStatus::passed);
  EXPECT_EQ(check.detail,
            "23 drawn gradients, off from those in float64 by at most 0 times what PyTorch's "
            "operators in float32 are, 7.1e-05");
}

TEST(GradientsComputed, PassWhereTheyAreRounded) {
  EXPECT_EQ(check_with(1 + 19 * kRounded).status, CheckStatus::passed);
  EXPECT_EQ(check_with(1 + 21 * kRounded).status, CheckStatus::failed);
}

TEST(GradientsComputed, PassWhereTheBufferRoundsThem) {
  EXPECT_EQ(check_with(1.005, 1, at::kBFloat16).status, CheckStatus::passed);
  EXPECT_EQ(check_with(1.02, 1, at::kBFloat16).status, CheckStatus::failed);
}

TEST(GradientsComputed, NameTheParameterTheRankAndByHowMuch) {
  const Check check = check_with(1.01);
  EXPECT_EQ(check.status, CheckStatus::failed);
  EXPECT_EQ(check.detail,
            "rank 1: 16 drawn gradients of first are off by 0.01 of those in float64, 1e+02 times "
            "as much as by PyTorch's operators in float32; 20 times is allowed");
}

TEST(GradientsComputed, CatchWhatIsNoNumberAndWhatShouldBeZero) {
  EXPECT_EQ(check_with(std::nan("")).status, CheckStatus::failed);
  EXPECT_EQ(check_with(0.01, 0).status, CheckStatus::failed);
  EXPECT_EQ(check_with(0, 0.01).status, CheckStatus::failed);
}

TEST(GradientsComputed, CatchAnotherLoss) {
  EXPECT_EQ(check_with(1, 1, at::kFloat, [] { return 1e-4; }).status, CheckStatus::passed);
  EXPECT_EQ(
      check_with(1, 1, at::kFloat, [] { return 0.5; }).detail,
      "rank 1: the loss is 47.5, and 47 by PyTorch's operators in float64; 0.00094 is allowed");
  const Added evaluated = [] { return c10::GradMode::is_enabled() ? 0 : 0.5; };
  EXPECT_EQ(check_with(1, 1, at::kFloat, evaluated).detail,
            "rank 1: the loss without gradients is 47.5, and 47 by PyTorch's operators in float64; "
            "0.00094 is allowed");
}

TEST(GradientsComputed, PassForWhatIsLeftOfTermsThatCancel) {
  EXPECT_EQ(check_with(3 * kRounded, 0).status, CheckStatus::passed);
  EXPECT_EQ(check_with(-3 * kRounded, 0).status, CheckStatus::passed);
}

}  // namespace
}  // namespace ddprun
