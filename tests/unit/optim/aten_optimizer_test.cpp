// The optimizers by ATen's operators give what the kernels give, to rounding: ranges, scales,
// copies.
#include "ddprun/optim/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "support/without_masters.h"

namespace ddprun::aten_optimizer_test {
namespace {

/// Values in [-1, 1] without a pattern of the buffer's size.
at::Tensor wave(std::int64_t count, double phase) {
  return (at::arange(count, at::kFloat) * 0.7 + phase).sin();
}

struct Model {
  /// With a copy in the compute dtype.
  explicit Model(BufferDtypes dtypes)
      : buffers(parameters, dtypes, allocate_private, KernelSet::fused) {}
  std::vector<NamedTensor> parameters = {{"a", wave(1000, 1).requires_grad_()},
                                         {"b", wave(37, 2).requires_grad_()}};
  FlatBuffers buffers;
  at::Tensor all() { return buffers.parameters(buffers.all()); }
};

struct Case {
  const char* name;
  OptimizerKind optimizer;
  double momentum;
  at::ScalarType reduce;
};

class AtenOptimizer : public testing::TestWithParam<Case> {
 protected:
  AtenOptimizer() {
    OptimizerConfig config;
    config.name = GetParam().optimizer;
    config.momentum = GetParam().momentum;
    kernels_ = make_optimizer(config, ours_.buffers);
    aten_ = make_aten_optimizer(config, atens_.buffers);
  }
  double difference() { return (ours_.all() - atens_.all()).abs().max().item<double>(); }

  const BufferDtypes dtypes_{GetParam().reduce, GetParam().reduce};
  Model ours_{dtypes_}, atens_{dtypes_};
  std::unique_ptr<Optimizer> kernels_, aten_;
};

INSTANTIATE_TEST_SUITE_P(Of, AtenOptimizer,
                         testing::Values(Case{"adamw", OptimizerKind::adamw, 0, at::kFloat},
                                         Case{"sgd", OptimizerKind::sgd, 0, at::kFloat},
                                         Case{"sgd_momentum", OptimizerKind::sgd, 0.9, at::kFloat},
                                         Case{"adamw_bf16", OptimizerKind::adamw, 0,
                                              at::kBFloat16}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(AtenOptimizer, EqualsTheKernels) {
  const at::Tensor before = ours_.all().clone();
  for (int step = 1; step <= 5; ++step) {
    for (Model* model : {&ours_, &atens_}) {
      for (int i = 0; i < model->buffers.count(); ++i) {
        const Range range = model->buffers.range(i);
        model->buffers.gradients(range).copy_(wave(range.size(), 3.0 * step + i));
      }
    }
    kernels_->begin_step(0.01 * step);
    kernels_->scale_gradients({.factor = at::full({}, 0.5)});
    kernels_->update_all();
    aten_->begin_step(0.01 * step);
    aten_->scale_gradients({.factor = at::full({}, 0.5)});
    aten_->update({64, 320});  // in pieces that cut parameters
    aten_->update({0, 64});
    aten_->update_all();
    EXPECT_LT(difference(), 2e-6) << "step " << step;
  }
  EXPECT_GT((ours_.all() - before).abs().max().item<double>(), 1e-2) << "nothing moved";
  aten_->update_again({64, 320});
  EXPECT_EQ(aten_->updates(), 5) << "what a proof repeats is no step";
  if (dtypes_.compute == at::kBFloat16) {
    const at::Tensor copy = atens_.buffers.compute_copy(atens_.buffers.all());
    EXPECT_TRUE(at::equal(copy, atens_.all().to(at::kBFloat16)));
  }
}

TEST_P(AtenOptimizer, SkipsStepsAsTheKernelsDo) {
  for (int step = 1; step <= 6; ++step) {
    const bool overflow = step % 3 == 1;  // the first, before there are moments, and the fourth
    const at::Tensor before = atens_.all().clone();
    for (auto [model, optimizer] : {std::pair{&ours_, kernels_.get()}, {&atens_, aten_.get()}}) {
      const at::Tensor gradients = model->buffers.gradients(model->buffers.all());
      gradients.copy_(wave(gradients.numel(), step));
      if (overflow) gradients.fill_(NAN);
      optimizer->begin_step(0.01);
      optimizer->scale_gradients(
          {.factor = at::full({}, 0.5), .overflow = at::full({}, overflow ? 2.0 : 0.0)});
      optimizer->update({0, 320});
      optimizer->update_all();
    }
    EXPECT_EQ(at::equal(atens_.all(), before), overflow) << "step " << step;
    EXPECT_LT(difference(), 2e-6) << "step " << step;
  }
}

TEST(AtenOptimizerWithoutMasters, IsARoundingOffTheKernelsAtMost) {
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    for (const OptimizerKind name : {OptimizerKind::adamw, OptimizerKind::sgd}) {
      OptimizerConfig config;
      config.name = name;
      config.momentum = name == OptimizerKind::sgd ? 0.9 : 0;
      std::array<at::Tensor, 2> results;
      for (const bool kernels : {false, true}) {
        const std::vector<NamedTensor> parameters = {{"a", wave(1000, 1).requires_grad_()}};
        FlatBuffers buffers(parameters, test::without_masters(moments));
        const auto optimizer =
            kernels ? make_optimizer(config, buffers) : make_aten_optimizer(config, buffers);
        for (int step = 1; step <= 5; ++step) {
          buffers.gradients(buffers.range(0)).copy_(wave(1000, 3.0 * step));
          optimizer->begin_step(0.01);
          optimizer->update({0, 320});
          optimizer->update_all();
        }
        results[kernels] = buffers.parameters(buffers.all()).to(at::kFloat);
      }
      // Values below 1 have their last place at 2^-8; a rounding the other way is seldom.
      const at::Tensor off = (results[0] - results[1]).abs();
      EXPECT_LE(off.max().item<double>(), 0x1p-7);
      EXPECT_LT(off.gt(0).sum().item<double>(), 20);
    }
  }
}

TEST(AtenNorm, IsTheNormInDouble) {
  const at::Tensor values = wave(100'000, 0);
  EXPECT_NEAR(aten_norm(values).item<double>(), values.to(at::kDouble).norm().item<double>(), 1e-9);
}

}  // namespace
}  // namespace ddprun::aten_optimizer_test
