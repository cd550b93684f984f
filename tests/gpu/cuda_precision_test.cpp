// The precisions where there is a GPU: what its products are rounded to, runs that prove
// themselves, and that device and CPU agree on what 8 bits are.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/device/device_library.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"
#include "support/ddprun_command.h"
#include "support/gpu_ranks.h"
#include "support/plugin_library.h"

namespace ddprun::test {
namespace {

class CudaPrecision : public GpuTest {
 protected:
  /// Why a precision cannot run on these GPUs; empty if it can.
  std::string refusal(const std::string& precision) const {
    return words_of(load_plugin<Precision>("precision", precision)
                        ->unsupported({.device = DeviceKind::cuda,
                                       .compute_capability = probe_.compute_capability}));
  }
};

/// The error of a product of two random matrices, as a part of its size.
double product_error(const at::TensorOptions& options) {
  const at::Tensor a = at::randn({1024, 1024}, options);
  const at::Tensor b = at::randn({1024, 1024}, options);
  const at::Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  return ((at::mm(a, b) - exact).norm() / exact.norm()).item<double>();
}

TEST_F(CudaPrecision, Fp32IsFloat32WhateverPyTorchWasTold) {
  on_gpu([](const at::TensorOptions& options) {
    at::globalContext().setAllowTF32CuBLAS(true);
    const auto fp32 = load_plugin<Precision>("precision", "fp32");
    fp32->convert({{"w", at::empty({1}, options)}});
    EXPECT_LT(product_error(options), 2e-6);
  });
}

TEST_F(CudaPrecision, Tf32RoundsProductsAndEndsWithItsRun) {
  if (const std::string reason = refusal("tf32"); !reason.empty()) GTEST_SKIP() << reason;
  on_gpu([](const at::TensorOptions& options) {
    auto tf32 = load_plugin<Precision>("precision", "tf32");
    tf32->convert({{"w", at::empty({1}, options)}});
    EXPECT_THAT(product_error(options), AllOf(testing::Gt(1e-5), testing::Lt(2e-3)));
    tf32.reset();
    EXPECT_LT(product_error(options), 2e-6);
  });
}

TEST_F(CudaPrecision, AutocastIsOfTheDevice) {
  for (const auto& [name, dtype] :
       {std::pair{"bf16_mixed", at::kBFloat16}, {"fp16_mixed", at::kHalf}}) {
    if (const std::string reason = refusal(name); !reason.empty()) GTEST_SKIP() << reason;
    on_gpu([name = name, dtype = dtype](const at::TensorOptions& options) {
      const auto precision = load_plugin<Precision>("precision", name);
      const at::Tensor x = at::randn({16, 16}, options);
      precision->convert({{"w", x}});
      const auto guard = precision->forward_guard();
      EXPECT_EQ(at::linear(x, x).scalar_type(), dtype);
    });
  }
}

// The same rounding, other sums: a few units of bfloat16 at most, and no more for gradients.
TEST_F(CudaPrecision, Fp8MultipliesAsTheCpuDoes) {
  if (const std::string reason = refusal("fp8"); !reason.empty()) GTEST_SKIP() << reason;
  on_gpu([](const at::TensorOptions& options) {
    at::manual_seed(7);
    const at::Tensor x = at::randn({64, 96});
    const at::Tensor weight = at::randn({32, 96});
    const at::Tensor dy = at::randn({64, 32}).to(at::kBFloat16);
    const auto run = [&](const at::Device& device) {
      const auto fp8 = load_plugin<Precision>("precision", "fp8");
      const at::Tensor x_leaf = x.to(device).detach().requires_grad_();
      const at::Tensor weight_leaf = weight.to(device).detach().requires_grad_();
      const at::Tensor y = fp8->linear()(x_leaf, weight_leaf);
      y.backward(dy.to(device));
      return std::vector<at::Tensor>{y.detach(), x_leaf.grad(), weight_leaf.grad()};
    };
    const auto expected = run(at::kCPU);
    const auto got = run(options.device());
    for (int i = 0; i < 3; ++i) {
      const at::Tensor reference = expected[i].to(at::kDouble);
      const at::Tensor error = got[i].cpu().to(at::kDouble) - reference;
      EXPECT_LT((error.norm() / reference.norm()).item<double>(), 4e-3) << i;
    }
  });
}

/// tiny_experiment() on all GPUs, in all precisions that they can.
TEST_F(CudaPrecision, RunsProveThemselves) {
  std::string precisions = "fp32";
  for (const std::string name : {"tf32", "bf16_mixed", "bf16_true", "bf16_pure", "fp16_mixed"}) {
    if (refusal(name).empty()) precisions += ", " + name;
  }
  if (refusal("fp8").empty()) precisions += ", fp8, {name: fp8, scaling: delayed}";
  TemporaryFolder folder("gpu.yaml",
                         tiny_experiment("sweep: {precision: [" + precisions + "]}\n", 10));
  must_run(folder, run_on_each(probe_.count));
  const json result = result_of(folder, "gpu");
  const auto last_loss = [](const json& row) {
    return row["ranks"][0]["samples"]["loss"].back().get<double>();
  };
  const double exact = last_loss(result["rows"][0]);
  for (const json& row : result["rows"]) {
    EXPECT_EQ(row["proof"]["status"], "passed") << row["label"];
    EXPECT_NEAR(last_loss(row), exact, 0.05) << row["label"];
  }
}

// A scale that no gradient survives: every step until the scale is small enough is skipped, on all
// ranks, and the run is still one.
TEST_F(CudaPrecision, Fp16SkipsStepsThatOverflow) {
  TemporaryFolder folder("gpu.yaml", tiny_experiment({}, 10));
  must_run(folder,
           with_sets(run_on_each(probe_.count),
                     {"precision={name: fp16_mixed, init_scale: 1e30, backoff_factor: 1e-4}"}));
  const json row = rows_of(folder, "gpu")[0];
  EXPECT_EQ(row["proof"]["status"], "passed");
  const json& skipped = row["ranks"][0]["samples"]["skipped"];
  EXPECT_TRUE(skipped.front().get<bool>());
  EXPECT_FALSE(skipped.back().get<bool>());
}

}  // namespace
}  // namespace ddprun::test
