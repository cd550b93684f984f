// The precision plugins: dtypes of every stage, bf16 losses near fp32 ones, and autocast state put
// back as it was.
#include "ddprun/plugin/precision.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <cstdlib>
#include <thread>

#include "ddprun/model/transformer.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/run_description.h"
#include "support/matchers.h"
#include "support/plugin_library.h"

namespace ddprun {
namespace {

using test::load_plugin;

class PrecisionPlugin : public ::testing::Test {
 protected:
  PrecisionPlugin() : ids_(at::randint(100, {2, 17}, at::kLong)) {}

  at::Tensor loss() const { return model_.loss(ids_.narrow(1, 0, 16), ids_.narrow(1, 1, 16)); }

  std::shared_ptr<Attention> attention_ = load_plugin<Attention>("attention", "sdpa");
  std::shared_ptr<Precision> fp32_ = load_plugin<Precision>("precision", "fp32");
  std::shared_ptr<Precision> bf16_ = load_plugin<Precision>("precision", "bf16_mixed");
  Transformer model_{
      {.preset = "",
       .vocab_size = 100,
       .context_length = 16,
       .d_model = 32,
       .d_ff = 64,
       .layers = 2,
       .heads = 4,
       .kernels = ddprun::KernelSet::reference},  // autocast is for PyTorch's operators
      *attention_,
      0};
  at::Tensor ids_;
};

TEST_F(PrecisionPlugin, Fp32DoesNothing) {
  EXPECT_EQ(fp32_->forward_guard(), nullptr);
  EXPECT_EQ(words_of(fp32_->unsupported({})), "");
  EXPECT_EQ(model_.logits(ids_.narrow(1, 0, 16)).scalar_type(), at::kFloat);
}

TEST_F(PrecisionPlugin, Bf16DtypesOfEveryStage) {
  at::Tensor logits;
  at::Tensor mean;
  {
    const auto guard = bf16_->forward_guard();
    logits = model_.logits(ids_.narrow(1, 0, 16));
    mean = loss();
  }
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_EQ(mean.scalar_type(), at::kFloat);
  mean.backward();
  for (const auto& [name, tensor, unit, wide, twice, elsewhere] : model_.parameters()) {
    EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
    EXPECT_EQ(tensor.grad().scalar_type(), at::kFloat) << name;
  }
}

// Rounding at 2^-9 of logits of size 1, averaged over 32 tokens.
TEST_F(PrecisionPlugin, Bf16LossAndGradientsAreNearFp32) {
  const at::Tensor exact = loss();
  exact.backward();
  std::vector<at::Tensor> gradients;
  for (const auto& [name, tensor, unit, wide, twice, elsewhere] : model_.parameters()) {
    gradients.push_back(tensor.grad().clone());
    tensor.mutable_grad().zero_();
  }
  at::Tensor rounded;
  {
    const auto guard = bf16_->forward_guard();
    rounded = loss();
  }
  rounded.backward();
  EXPECT_NEAR(rounded.item<double>(), exact.item<double>(), 0.02);
  EXPECT_NE(rounded.item<double>(), exact.item<double>());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor gradient = model_.parameters()[i].tensor.grad();
    const double error = ((gradient - gradients[i]).norm() / gradients[i].norm()).item<double>();
    EXPECT_LT(error, 0.05) << model_.parameters()[i].name;
  }
}

// Weights are cast once in a guard; a stale cast would train on the old weights for ever.
TEST_F(PrecisionPlugin, Bf16SeesParametersThatChangedBetweenGuards) {
  const auto guarded = [&] {
    const auto guard = bf16_->forward_guard();
    return loss().item<double>();
  };
  const double before = guarded();
  EXPECT_EQ(guarded(), before);
  {
    const c10::NoGradGuard no_grad;
    for (const auto& [name, tensor, unit, wide, twice, elsewhere] : model_.parameters()) {
      if (name == "lm_head.weight") tensor.mul_(0.5);
    }
  }
  EXPECT_NE(guarded(), before);
}

TEST_F(PrecisionPlugin, Bf16StateIsPutBackAndBelongsToTheThread) {
  const at::Tensor x = at::ones({2, 2});
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  {
    const auto outer = bf16_->forward_guard();
    {
      const auto inner = bf16_->forward_guard();
      EXPECT_EQ(at::linear(x, x).scalar_type(), at::kBFloat16);
    }
    EXPECT_EQ(at::linear(x, x).scalar_type(), at::kBFloat16);
    std::thread([&x] { EXPECT_EQ(at::linear(x, x).scalar_type(), at::kFloat); }).join();
  }
  EXPECT_EQ(at::linear(x, x).scalar_type(), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
}

// The switch of a device is there without the device.
TEST(Autocast, IsSwitchedForOneDeviceAlone) {
  at::autocast::set_autocast_dtype(at::kCUDA, at::kHalf);
  {
    const AutocastGuard guard(at::kCUDA, at::kBFloat16);
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCUDA));
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCUDA), at::kBFloat16);
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCUDA));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCUDA), at::kHalf);
}

/// Parameters that are not on the CPU, where there is no other device.
std::vector<NamedTensor> elsewhere() { return {{"w", at::empty({2, 2}, at::kMeta)}}; }

// Several experiments may run in one process, one after another.
TEST(Float32Products, EachPrecisionHasItsOwnAndPutsBackWhatWasThere) {
  auto& context = at::globalContext();
  for (const bool before : {false, true}) {
    context.setAllowTF32CuBLAS(before);
    auto fp32 = load_plugin<Precision>("precision", "fp32");
    auto tf32 = load_plugin<Precision>("precision", "tf32");
    EXPECT_EQ(context.allowTF32CuBLAS(), before) << "nothing has run";
    fp32->convert(elsewhere());
    EXPECT_FALSE(context.allowTF32CuBLAS());
    fp32.reset();
    EXPECT_EQ(context.allowTF32CuBLAS(), before);
    tf32->convert(elsewhere());
    EXPECT_TRUE(context.allowTF32CuBLAS());
    tf32.reset();
    EXPECT_EQ(context.allowTF32CuBLAS(), before);
  }
  context.setAllowTF32CuBLAS(false);
}

TEST(Float32Products, NvidiasOwnOverrideIsRefusedWhereItWouldDecide) {
  const auto fp32 = load_plugin<Precision>("precision", "fp32");
  const auto tf32 = load_plugin<Precision>("precision", "tf32");
  const RunDescription hopper{.device = ddprun::DeviceKind::cuda, .compute_capability = 90};
  ::setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
  EXPECT_EQ(words_of(fp32->unsupported(hopper)), "");
  EXPECT_THAT(words_of(tf32->unsupported(hopper)), HasSubstr("NVIDIA_TF32_OVERRIDE=0 decides"));
  ::setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  EXPECT_THAT(words_of(fp32->unsupported(hopper)), HasSubstr("NVIDIA_TF32_OVERRIDE=1 decides"));
  EXPECT_EQ(words_of(fp32->unsupported({})), "") << "the CPU does not care";
  EXPECT_EQ(words_of(tf32->unsupported(hopper)), "");
  ::unsetenv("NVIDIA_TF32_OVERRIDE");
}

/// Why a precision cannot run on a GPU of this compute capability; empty if it can.
std::string on_gpu(const std::string& precision, int compute_capability) {
  return words_of(load_plugin<Precision>("precision", precision)
                      ->unsupported({.device = ddprun::DeviceKind::cuda,
                                     .compute_capability = compute_capability}));
}

TEST(ComputeCapability, OfAGpuThatCannotIsTheReason) {
  for (const std::string precision : {"tf32", "bf16_mixed", "bf16_true", "bf16_pure"}) {
    EXPECT_EQ(on_gpu(precision, 80), "") << precision;
    EXPECT_THAT(on_gpu(precision, 75), HasSubstr("compute capability 8.0 or more, and one here has "
                                                 "7.5"))
        << precision;
  }
  for (const std::string precision : {"fp32", "fp16_mixed"}) {
    EXPECT_EQ(on_gpu(precision, 75), "") << precision;
  }
}

TEST(Refusals, OnTheCpuAndWithFusedKernels) {
  const auto tf32 = load_plugin<Precision>("precision", "tf32");
  EXPECT_THAT(words_of(tf32->unsupported({})), HasSubstr("on the CPU there is fp32"));
  for (const std::string name : {"bf16_true", "bf16_pure", "fp16_mixed"}) {
    const auto precision = load_plugin<Precision>("precision", name);
    EXPECT_EQ(words_of(precision->unsupported({})), "") << name;
    EXPECT_THAT(words_of(precision->unsupported({.kernels = ddprun::KernelSet::fused})),
                HasSubstr("`kernels: reference`"))
        << name;
  }
}

}  // namespace
}  // namespace ddprun
