// The optimizers where there is a GPU give what the CPU's kernels give, to rounding: ranges,
// scales, copies.
#include "ddprun/optim/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "support/gpu_ranks.h"
#include "support/without_masters.h"

namespace ddprun::test {
namespace {

/// Values in [-1, 1] without a pattern of the buffer's size.
at::Tensor wave(std::int64_t count, double phase) {
  return (at::arange(count, at::kFloat) * 0.7 + phase).sin();
}

/// A model in flat buffers and its optimizer, with a copy in the compute dtype.
class Updated {
 public:
  Updated(const OptimizerConfig& config, BufferDtypes dtypes, const at::TensorOptions& options)
      : parameters_{{"a", wave(1000, 1).to(options).requires_grad_()},
                    {"b", wave(37, 2).to(options).requires_grad_()}},
        buffers_(parameters_, dtypes, allocate_private, KernelSet::fused),
        optimizer_(make_optimizer(config, buffers_)) {}

  Optimizer& optimizer() { return *optimizer_; }
  at::Tensor all() { return buffers_.parameters(buffers_.all()).cpu(); }
  at::Tensor copy() { return buffers_.compute_copy(buffers_.all()).cpu(); }

  void begin_step(double lr, double phase, double overflow = 0) {
    for (int i = 0; i < buffers_.count(); ++i) {
      const Range range = buffers_.range(i);
      buffers_.gradients(range).copy_(wave(range.size(), phase + i));
      if (overflow > 0) buffers_.gradients(range).fill_(NAN);
    }
    optimizer_->begin_step(lr);
    const auto scalar = [&](double value) {
      return at::full({}, value, buffers_.parameter(0).options().requires_grad(false));
    };
    optimizer_->scale_gradients({.factor = scalar(0.5), .overflow = scalar(overflow)});
  }

 private:
  std::vector<NamedTensor> parameters_;
  FlatBuffers buffers_;
  std::unique_ptr<Optimizer> optimizer_;
};

double difference(Updated& a, Updated& b) { return (a.all() - b.all()).abs().max().item<double>(); }

struct Case {
  const char* name;
  OptimizerKind optimizer;
  double momentum;
  at::ScalarType reduce;
};

class OptimizerOnGpu : public GpuTest, public testing::WithParamInterface<Case> {
 protected:
  OptimizerOnGpu() {
    config_.name = GetParam().optimizer;
    config_.momentum = GetParam().momentum;
    config_.groups = {{.match = "b", .lr_scale = 0.5, .weight_decay = 0.1}};
  }

  OptimizerConfig config_;
  const BufferDtypes dtypes_{GetParam().reduce, GetParam().reduce};
};

INSTANTIATE_TEST_SUITE_P(Of, OptimizerOnGpu,
                         testing::Values(Case{"adamw", OptimizerKind::adamw, 0, at::kFloat},
                                         Case{"sgd", OptimizerKind::sgd, 0, at::kFloat},
                                         Case{"sgd_momentum", OptimizerKind::sgd, 0.9, at::kFloat},
                                         Case{"adamw_bf16", OptimizerKind::adamw, 0,
                                              at::kBFloat16}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(OptimizerOnGpu, EqualsTheKernels) {
  on_gpu([this](const at::TensorOptions& options) {
    Updated host(config_, dtypes_, at::kFloat), device(config_, dtypes_, options);
    Updated whole(config_, dtypes_, options);
    const at::Tensor before = host.all().clone();
    for (int step = 1; step <= 5; ++step) {
      for (Updated* each : {&host, &device, &whole}) each->begin_step(0.01 * step, 3.0 * step);
      device.optimizer().update({64, 320});  // in pieces that cut parameters
      device.optimizer().update({0, 64});
      for (Updated* each : {&host, &device, &whole}) each->optimizer().update_all();
      EXPECT_LT(difference(host, device), 2e-6) << "step " << step;
      const bool same = device.optimizer().rounds_the_same_everywhere();
      EXPECT_LE(difference(whole, device), same ? 0 : 2e-6) << "step " << step;
    }
    EXPECT_GT((host.all() - before).abs().max().item<double>(), 1e-2) << "nothing moved";
    device.optimizer().update_again({64, 320});
    EXPECT_EQ(device.optimizer().updates(), 5) << "what a proof repeats is no step";
    if (dtypes_.compute == at::kBFloat16) {
      EXPECT_TRUE(at::equal(device.copy(), device.all().to(at::kBFloat16)));
    }
  });
}

TEST_P(OptimizerOnGpu, SkipsStepsAsTheKernelsDo) {
  on_gpu([this](const at::TensorOptions& options) {
    Updated host(config_, dtypes_, at::kFloat), device(config_, dtypes_, options);
    for (int step = 1; step <= 6; ++step) {
      const bool overflow = step % 3 == 1;  // the first, before there are moments, and the fourth
      const at::Tensor before = device.all().clone();
      for (Updated* each : {&host, &device}) {
        each->begin_step(0.01, step, overflow ? 2.0 : 0.0);
        each->optimizer().update({0, 320});
        each->optimizer().update_all();
      }
      EXPECT_EQ(at::equal(device.all(), before), overflow) << "step " << step;
      EXPECT_LT(difference(host, device), 2e-6) << "step " << step;
    }
  });
}

class OptimizerOnGpuWithoutMasters : public GpuTest {};

/// What five steps without float32 parameters lead to.
at::Tensor trained_without_masters(const OptimizerConfig& config, at::ScalarType moments,
                                   const at::TensorOptions& options) {
  const std::vector<NamedTensor> parameters = {{"a", wave(1000, 1).to(options).requires_grad_()}};
  FlatBuffers buffers(parameters, without_masters(moments));
  const auto optimizer = make_optimizer(config, buffers);
  for (int step = 1; step <= 5; ++step) {
    buffers.gradients(buffers.range(0)).copy_(wave(1000, 3.0 * step));
    optimizer->begin_step(0.01);
    optimizer->update({0, 320});
    optimizer->update_all();
  }
  return buffers.parameters(buffers.all()).cpu().to(at::kFloat);
}

TEST_F(OptimizerOnGpuWithoutMasters, IsARoundingOffTheKernelsAtMost) {
  on_gpu([](const at::TensorOptions& options) {
    for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
      for (const OptimizerKind name : {OptimizerKind::adamw, OptimizerKind::sgd}) {
        OptimizerConfig config;
        config.name = name;
        config.momentum = name == OptimizerKind::sgd ? 0.9 : 0;
        const at::Tensor off = (trained_without_masters(config, moments, at::kFloat) -
                                trained_without_masters(config, moments, options))
                                   .abs();
        // Values below 1 have their last place at 2^-8; a rounding the other way is seldom.
        EXPECT_LE(off.max().item<double>(), 0x1p-7);
        EXPECT_LT(off.gt(0).sum().item<double>(), 20);
      }
    }
  });
}

TEST_F(OptimizerOnGpuWithoutMasters, ItsNormIsInDouble) {
  on_gpu([](const at::TensorOptions& options) {
    const at::Tensor values = wave(100'000, 0);
    EXPECT_NEAR(aten_norm(values.to(options)).item<double>(),
                values.to(at::kDouble).norm().item<double>(), 1e-9);
  });
}

}  // namespace
}  // namespace ddprun::test
