// An optimizer that computes something else than it was told is found by its formula.
#include "ddprun/proof/update_proof.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <vector>

#include "ddprun/proof/exact_update.h"
#include "support/matchers.h"
#include "support/scaling_precision.h"
#include "support/thread_ranks.h"
#include "support/without_masters.h"

namespace ddprun::update_proof_test {
namespace {

/// What the proof is told of a step, beside the optimizer's configuration.
struct Told {
  double norm_factor = 1;  ///< times the gradients' norm
  double scaled_back = 1;  ///< what undid the scale of the loss
};

/// Of the second of two steps that an optimizer of `made` takes with a loss times `scale`, if the
/// proof is told `config` and `told`. `rows`: of the larger parameter, (rows, 16).
Check formula_check(const OptimizerConfig& made, const OptimizerConfig& config,
                    BufferDtypes dtypes = {}, Told told = {}, double scale = 1,
                    std::int64_t rows = 400) {
  at::manual_seed(1);
  return test::of_ranks(1, [&](ProcessGroup& group) {
    test::Alone strategy;
    test::ScalingPrecision precision(scale, dtypes);
    const std::vector<NamedTensor> parameters = {{"matrix", at::randn({rows, 16}).requires_grad_()},
                                                 {"norm", at::randn({7}).requires_grad_()}};
    DataParallel ddp(parameters, group, strategy, precision, made);
    double norm = 0;
    const auto step = [&](UpdateProof* proof) {
      ddp.backward(ddp.forward([&] {
        return (parameters[0].tensor.pow(2).sum() + parameters[1].tensor.pow(3).sum()) / 100;
      }));
      if (proof != nullptr) proof->keep_gradients();
      norm = ddp.step(1e-2, made.clip_norm).gradient_norm().value_or(0);
    };
    step(nullptr);
    UpdateProof proof(ddp, config, /*draw=*/5);
    step(&proof);
    EXPECT_EQ(proof.finish(group).status, CheckStatus::passed);
    return proof.finish_formula(group, norm * told.norm_factor, told.scaled_back);
  })[0];
}

OptimizerConfig adamw() {
  OptimizerConfig config;
  config.groups = {{.match = "norm", .lr_scale = 2}};
  return config;
}

OptimizerConfig sgd(double momentum) {
  OptimizerConfig config;
  config.name = OptimizerKind::sgd;
  config.momentum = momentum;
  return config;
}

TEST(OptimizerComputed, IsTheFormulaInEachDtype) {
  const BufferDtypes masters = {
      .compute = at::kBFloat16, .reduce = at::kBFloat16, .model = at::kBFloat16};
  for (const OptimizerConfig& config : {adamw(), sgd(0.9), sgd(0)}) {
    for (const BufferDtypes& dtypes : {BufferDtypes{}, masters, test::without_masters()}) {
      const Check check = formula_check(config, config, dtypes);
      EXPECT_EQ(check.status, CheckStatus::passed) << check.detail;
    }
  }
}

TEST(OptimizerComputed, CatchesEachOtherNumber) {
  std::vector<OptimizerConfig> others(6, adamw());
  others[0].betas[0] = 0.91;
  others[1].betas[1] = 0.951;
  others[2].eps = 1e-6;
  others[3].weight_decay = 0.11;
  others[4].groups[0].lr_scale = 1;
  others[5].groups[0].weight_decay = 0;
  for (const OptimizerConfig& other : others) {
    const Check check = formula_check(adamw(), other);
    EXPECT_EQ(check.status, CheckStatus::failed) << &other - others.data();
    EXPECT_THAT(check.detail, HasSubstr("are not what the formula of adamw gives"));
  }
  for (const double momentum : {0.0, 0.91}) {
    EXPECT_EQ(formula_check(sgd(0.9), sgd(momentum)).status, CheckStatus::failed) << momentum;
  }
}

/// What the formula makes of a parameter of 0.5 and its moments.
UpdatedElement updated(const OptimizerConfig& config, double g) {
  const double p = 0.5, decay = 0.1, lr = 0.01;
  if (config.name == OptimizerKind::sgd) {
    const double v = 0.9 * 0.2 + g + decay * p;
    return {p - lr * v, {v}};
  }
  const double m = 0.9 * 0.2 + 0.1 * g, v = 0.95 * 0.04 + 0.05 * g * g;
  const double size = std::sqrt(v / (1 - std::pow(0.95, 3))) + 1e-8;
  return {p * (1 - lr * decay) - lr / (1 - std::pow(0.9, 3)) * m / size, {m, v}};
}

TEST(OptimizerComputed, CatchesATenThousandthOfEachNumberThatIsWritten) {
  for (const OptimizerConfig& config : {adamw(), sgd(0.9)}) {
    const UpdateRule rule = {.config = config,
                             .settings = {.weight_decay = 0.1},
                             .lr = 0.01,
                             .gradient_scale = 0.5,
                             .updates = 3};
    const UpdatedElement before = {0.5, {0.2, 0.04}}, right = updated(config, 0.5 * 0.3);
    EXPECT_TRUE(follows(rule, before, 0.3, right, {}));
    UpdatedElement wrong[] = {right, right, right};
    for (double* const number : {&wrong[0].parameter, &wrong[1].moments[0], &wrong[2].moments[1]}) {
      *number *= 1 + 1e-4;
    }
    for (const int i : {0, 1, 2}) {
      EXPECT_EQ(follows(rule, before, 0.3, wrong[i], {}), wrong[i].moments[1] == 0 && i == 2) << i;
    }
  }
}

TEST(OptimizerComputed, CatchesAnotherNormOfTheGradients) {
  OptimizerConfig clips = adamw();
  clips.clip_norm = 0.01;
  EXPECT_EQ(formula_check(clips, clips).status, CheckStatus::passed);
  EXPECT_EQ(formula_check(clips, clips, {}, {}, 1, 70'000).status, CheckStatus::passed)
      << "of more gradients than are added up at a time";
  const Check check = formula_check(clips, clips, {}, {.norm_factor = 0.999});
  EXPECT_EQ(check.status, CheckStatus::failed);
  EXPECT_THAT(check.detail, HasSubstr("the step clipped by a gradient norm of "));
}

TEST(OptimizerComputed, CatchesANormThatHasTheScaleOfTheLoss) {
  OptimizerConfig clips = adamw();
  clips.clip_norm = 0.01;
  EXPECT_EQ(formula_check(clips, clips, {}, {.scaled_back = 0.125}, 8).status, CheckStatus::passed);
  EXPECT_EQ(formula_check(clips, clips, {}, {.norm_factor = 8, .scaled_back = 0.125}, 8).status,
            CheckStatus::failed);
}

}  // namespace
}  // namespace ddprun::update_proof_test
