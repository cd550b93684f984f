// Optimizers against torch's own kernel and against the formulas in double; ranges, threads,
// clipping.
#include "ddprun/optim/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "support/without_masters.h"

namespace ddprun::optimizer_test {
namespace {

/// Reproducible values in [-1, 1) that need no generator of torch's.
at::Tensor noise(std::int64_t count, std::uint64_t seed) {
  at::Tensor values = at::empty({count}, at::kFloat);
  float* const out = values.data_ptr<float>();
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out[i] = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
  }
  return values;
}

/// Two parameters, of which the sizes leave padding and, over kGrain, give every thread a piece.
struct Model {
  std::vector<NamedTensor> parameters = {{"a", noise(70001, 1).requires_grad_()},
                                         {"b", noise(37, 2).requires_grad_()}};
  FlatBuffers buffers{parameters};

  void set_gradients(int step) {
    for (int i = 0; i < buffers.count(); ++i) {
      const Range range = buffers.range(i);
      buffers.gradients(range).copy_(noise(range.size(), 100 * step + i) * 0.1);
    }
  }
  at::Tensor all() { return buffers.parameters(buffers.all()); }
};

OptimizerConfig adamw() {
  OptimizerConfig config;
  config.betas = {0.9, 0.95};
  config.weight_decay = 0.1;
  return config;
}

/// Parameters after the steps: of one pass each, or in the ranges of the next of `cuts`.
at::Tensor run(const OptimizerConfig& config, std::size_t steps,
               const std::vector<std::vector<Range>>& cuts = {}) {
  Model model;
  const auto optimizer = make_optimizer(config, model.buffers);
  for (std::size_t step = 0; step < steps; ++step) {
    model.set_gradients(static_cast<int>(step));
    optimizer->begin_step(config.lr);
    if (cuts.empty()) {
      optimizer->update_all();
    } else {
      for (const Range range : cuts[step % cuts.size()]) optimizer->update(range);
    }
  }
  return model.all().clone();
}

TEST(Adamw, EqualsTorchsFusedKernelToRounding) {
  Model model;
  const OptimizerConfig config = adamw();
  const auto optimizer = make_optimizer(config, model.buffers);
  at::Tensor parameter = model.all().clone();
  at::Tensor gradient = at::zeros_like(parameter);
  at::Tensor mean = at::zeros_like(parameter);
  at::Tensor square = at::zeros_like(parameter);
  for (int step = 0; step < 10; ++step) {
    const double lr = config.lr * (step + 1);
    model.set_gradients(step);
    gradient.copy_(model.buffers.gradients(model.buffers.all()));
    const at::Tensor steps = at::full({}, static_cast<double>(step + 1), at::kFloat);
    at::_fused_adamw_({parameter}, {gradient}, {mean}, {square}, {}, {steps}, lr, 0.9, 0.95, 0.1,
                      1e-8, false, false);
    optimizer->begin_step(lr);
    optimizer->update_all();
    const double difference = (model.all() - parameter).abs().max().item<double>();
    // Parameters are below 1, where a float's last place is 6e-8; both round a handful of times a
    // step.
    EXPECT_LT(difference, 6e-8 * 2 * (step + 1)) << "step " << step;
  }
  EXPECT_GT((model.all() - Model().all()).abs().max().item<double>(), 1e-2) << "nothing moved";
}

/// AdamW by float32 tensors, whose moments and parameters are rounded after each step.
struct RoundedAdamw {
  at::Tensor parameter, mean, square;
  at::ScalarType moments;

  void step(const at::Tensor& gradient, int step) {
    at::Tensor p = parameter.to(at::kFloat);
    at::Tensor m = mean.to(at::kFloat);
    at::Tensor v = square.to(at::kFloat);
    const at::Tensor steps = at::full({}, static_cast<double>(step), at::kFloat);
    at::_fused_adamw_({p}, {gradient.to(at::kFloat)}, {m}, {v}, {}, {steps}, 1e-2, 0.9, 0.95, 0.1,
                      1e-8, false, false);
    parameter = p.to(at::kBFloat16);
    mean = m.to(moments);
    square = v.to(moments);
  }
};

TEST(AdamwWithoutMasters, ComputesInFloat32AndRoundsWhatItKeeps) {
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    const std::vector<NamedTensor> parameters = {{"a", noise(70001, 1).requires_grad_()}};
    FlatBuffers buffers(parameters, test::without_masters(moments));
    const auto optimizer = make_optimizer(adamw(), buffers);
    const at::Tensor own = buffers.parameters(buffers.range(0));
    RoundedAdamw expected{own.clone(), at::zeros_like(own, moments), at::zeros_like(own, moments),
                          moments};
    for (int step = 1; step <= 5; ++step) {
      buffers.gradients(buffers.range(0)).copy_(noise(70001, 100 * step) * 0.1);
      expected.step(buffers.gradients(buffers.range(0)), step);
      optimizer->begin_step(1e-2);
      optimizer->update({0, 33333});
      optimizer->update_all();
      const at::Tensor off = (own.to(at::kFloat) - expected.parameter.to(at::kFloat)).abs();
      EXPECT_LE(off.max().item<double>(), 0x1p-7);
      // torch's kernel rounds otherwise in float32, so a few values round to the other neighbour.
      EXPECT_LT(off.gt(0).sum().item<double>(), 70001 * 2e-3 * step);
    }
  }
}

TEST(SgdWithoutMasters, ComputesInFloat32AndRoundsWhatItKeeps) {
  for (const double momentum : {0.0, 0.5}) {
    const std::vector<NamedTensor> parameters = {{"a", at::ones({3}).requires_grad_()}};
    FlatBuffers buffers(parameters, test::without_masters());
    OptimizerConfig config;
    config.name = OptimizerKind::sgd;
    config.weight_decay = 0;
    config.momentum = momentum;
    const auto optimizer = make_optimizer(config, buffers);
    float parameter = 1;
    float velocity = 0;
    for (int step = 0; step < 3; ++step) {
      buffers.gradients(buffers.range(0)).fill_(0.3);
      optimizer->begin_step(0.1);
      optimizer->update_all();
      const auto gradient = static_cast<float>(at::BFloat16(0.3F));
      const float moved = static_cast<float>(momentum) * velocity + gradient;
      parameter = static_cast<float>(at::BFloat16(parameter - 0.1F * moved));
      velocity = static_cast<float>(at::BFloat16(moved));
      EXPECT_EQ(buffers.parameters(buffers.range(0))[0].item<float>(), parameter) << step;
    }
    EXPECT_LT(parameter, 0.95F);
  }
}

TEST(Sgd, FollowsTheFormulaInDouble) {
  for (const double momentum : {0.0, 0.9}) {
    OptimizerConfig config;
    config.name = OptimizerKind::sgd;
    config.weight_decay = 0.01;
    config.momentum = momentum;
    Model model;
    const auto optimizer = make_optimizer(config, model.buffers);
    at::Tensor p = model.all().to(at::kDouble);
    at::Tensor velocity = at::zeros_like(p);
    for (int step = 0; step < 5; ++step) {
      model.set_gradients(step);
      optimizer->begin_step(0.1);
      optimizer->scale_gradients({.factor = at::full({}, 0.5)});
      optimizer->update_all();
      const at::Tensor g = model.buffers.gradients(model.buffers.all()).to(at::kDouble) * 0.5;
      velocity = velocity * momentum + g + p * 0.01;
      p = p - velocity * 0.1;
      EXPECT_LT((model.all().to(at::kDouble) - p).abs().max().item<double>(), 1e-7 * (step + 1))
          << "momentum " << momentum;
    }
  }
}

TEST(Optimizer, RangesGiveTheBitsOfOnePass) {
  const std::int64_t end = Model().buffers.all().end;
  // Cuts off any vector's boundary, out of order, and others in each step; state follows although
  // the cuts differ from the parameters'.
  const std::vector<std::vector<Range>> cuts = {{{33, 1001}, {0, 33}, {40007, end}, {1001, 40007}},
                                                {{0, end}},
                                                {{0, 150}, {150, 50000}, {50000, end}}};
  for (const OptimizerKind name : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    OptimizerConfig config = adamw();
    config.name = name;
    config.momentum = 0.9;
    EXPECT_TRUE(at::equal(run(config, 4), run(config, 4, cuts))) << name_of(name);
  }
}

TEST(Optimizer, ThreadsDoNotChangeBits) {
  for (const OptimizerKind name : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    OptimizerConfig config = adamw();
    config.name = name;
    const auto with_threads = [&](int count) {
      at::set_num_threads(count);
      return run(config, 3);
    };
    EXPECT_TRUE(at::equal(with_threads(1), with_threads(2))) << name_of(name);
  }
}

TEST(Optimizer, LeavesPadding) {
  Model model;
  const auto optimizer = make_optimizer(adamw(), model.buffers);
  model.set_gradients(0);
  optimizer->begin_step(0.1);
  optimizer->scale_gradients({.factor = at::full({}, 2.0)});
  optimizer->update_all();
  const Range padding{model.buffers.range(0).end, model.buffers.range(1).begin};
  ASSERT_GT(padding.size(), 0);
  EXPECT_EQ(model.buffers.parameters(padding).abs().max().item<float>(), 0.0f);
}

TEST(Optimizer, GradientScaleEqualsScaledGradients) {
  const auto once = [](bool in_optimizer) {
    Model model;
    const auto optimizer = make_optimizer(adamw(), model.buffers);
    model.set_gradients(0);
    if (!in_optimizer) model.buffers.gradients(model.buffers.all()).mul_(0.125);
    optimizer->begin_step(1e-3);
    optimizer->scale_gradients({.factor = at::full({}, in_optimizer ? 0.125 : 1.0)});
    optimizer->update_all();
    return model.all().clone();
  };
  EXPECT_TRUE(at::equal(once(true), once(false)));
}

TEST(Optimizer, RefusesWhatItCannotDo) {
  Model model;
  OptimizerConfig config = adamw();
  config.betas = {0.9};
  EXPECT_THROW(make_optimizer(config, model.buffers), ConfigError);
  EXPECT_ANY_THROW(make_optimizer(adamw(), model.buffers)->update_all()) << "before begin_step";
}

TEST(GradientNorm, EqualsTheNormInDoubleAtAnyThreadCount) {
  Model model;
  model.set_gradients(3);
  const double expected =
      model.buffers.gradients(model.buffers.all()).to(at::kDouble).norm().item<double>();
  const auto norm = gradient_norm(model.buffers).item<double>();
  EXPECT_NEAR(norm, expected, 1e-12 * expected);
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    EXPECT_EQ(gradient_norm(model.buffers).item<double>(), norm) << count << " threads";
  }
}

}  // namespace
}  // namespace ddprun::optimizer_test
