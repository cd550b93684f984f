// Precision fp8: products against float64 ones of the rounded operands, scales from now and from
// before, what it refuses.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "ddprun/config/options_io.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"
#include "support/matchers.h"
#include "support/plugin_library.h"
#include "support/saved_tensor_hooks.h"

namespace ddprun {
namespace {

/// The plugin, with options given as YAML text.
std::shared_ptr<Precision> make_fp8(const std::string& options = "{}") {
  const auto precision = test::load_plugin<Precision>("precision", "fp8");
  read_options(parse_yaml(options, "options"), "precision",
               [&](Options& declared) { precision->declare_options(declared); });
  return precision;
}

/// `matrix`, rounded to 8 bits under a scale that takes `amax` to the largest number; float64.
at::Tensor rounded(const at::Tensor& matrix, at::ScalarType dtype, const at::Tensor& amax) {
  const double largest = dtype == at::kFloat8_e4m3fn ? 448.0 : 57344.0;
  const at::Tensor scale = amax.to(at::kFloat) / largest;
  const at::Tensor values = (matrix.to(at::kFloat) / scale).clamp(-largest, largest).to(dtype);
  return values.to(at::kDouble) * scale.to(at::kDouble);
}

at::Tensor rounded(const at::Tensor& matrix, at::ScalarType dtype) {
  return rounded(matrix, dtype, matrix.abs().amax());
}

double relative_error(const at::Tensor& got, const at::Tensor& expected) {
  EXPECT_EQ(got.sizes(), expected.sizes());
  return ((got.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

constexpr double kBfloat16 = 1.0 / 256;  // half a unit in the last place, as a part
constexpr double kFloat = 1e-6;

class Fp8 : public ::testing::Test {
 protected:
  Fp8() { at::manual_seed(7); }

  at::Tensor x_ = at::randn({2, 16, 48}).requires_grad_();
  at::Tensor weight_ = (at::randn({64, 48}) * 0.1).requires_grad_();
};

TEST_F(Fp8, SavesWhereHooksSeeIt) {
  const auto fp8 = make_fp8();
  fp8->linear()(x_, weight_).sum().backward();
  const at::Tensor expected = weight_.grad().clone();
  weight_.mutable_grad().reset();
  at::Tensor y;
  const auto& counts = test::with_saved_tensor_hooks([&] { y = fp8->linear()(x_, weight_); });
  EXPECT_EQ(counts.packed, 4) << "values and scales of both operands";
  y.sum().backward();
  EXPECT_TRUE(at::equal(weight_.grad(), expected));
}

TEST_F(Fp8, ProductsAreThoseOfTheRoundedOperands) {
  const auto fp8 = make_fp8();
  const at::Tensor y = fp8->linear()(x_, weight_);
  const at::Tensor x = rounded(x_.detach(), at::kFloat8_e4m3fn).flatten(0, 1);
  const at::Tensor weight = rounded(weight_.detach(), at::kFloat8_e4m3fn);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_error(y, at::mm(x, weight.t()).view({2, 16, 64})), kBfloat16);
  EXPECT_GT(relative_error(y, at::linear(x_, weight_)), 0.01) << "8 bits leave a trace";

  const at::Tensor dy = (at::randn({2, 16, 64}) * 1e-5).to(at::kBFloat16);
  y.backward(dy);
  const at::Tensor rows = rounded(dy, at::kFloat8_e5m2).flatten(0, 1);
  EXPECT_EQ(x_.grad().scalar_type(), at::kFloat);
  EXPECT_LT(relative_error(x_.grad(), at::mm(rows, weight).view({2, 16, 48})), kBfloat16);
  EXPECT_LT(relative_error(weight_.grad(), at::mm(rows.t(), x)), kFloat) << "sums stay float32";
}

// What a GPU computes with, called with the same operands and scales.
TEST_F(Fp8, ProductsAreThoseOfScaledMm) {
  const at::Tensor x = x_.detach().flatten(0, 1);
  const at::Tensor weight = weight_.detach();
  const auto scale = [](const at::Tensor& matrix) { return matrix.abs().amax() / 448.0; };
  const at::Tensor expected = at::_scaled_mm(
      (x / scale(x)).to(at::kFloat8_e4m3fn), (weight / scale(weight)).to(at::kFloat8_e4m3fn).t(),
      scale(x), scale(weight), {}, {}, at::kBFloat16, /*use_fast_accum=*/true);
  const at::Tensor y = make_fp8()->linear()(x, weight);
  EXPECT_LT(relative_error(y, expected.to(at::kDouble)), kBfloat16);
}

TEST_F(Fp8, InputsInBfloat16AndOutOfOrderInMemory) {
  const auto fp8 = make_fp8();
  const at::Tensor columns = at::randn({48, 32}).to(at::kBFloat16).t().requires_grad_();
  const at::Tensor y = fp8->linear()(columns, weight_);
  const at::Tensor weight = rounded(weight_.detach(), at::kFloat8_e4m3fn);
  EXPECT_LT(relative_error(y, at::mm(rounded(columns.detach(), at::kFloat8_e4m3fn), weight.t())),
            kBfloat16);
  y.sum().backward();
  EXPECT_EQ(columns.grad().scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_error(columns.grad(), weight.sum(0).expand({32, 48})), kBfloat16);
}

TEST_F(Fp8, OnlyTheGradientsThatAreWanted) {
  const auto fp8 = make_fp8();
  fp8->linear()(x_.detach(), weight_).sum().backward();
  EXPECT_TRUE(weight_.grad().defined());
  EXPECT_FALSE(x_.grad().defined());
  const c10::NoGradGuard no_grad;
  EXPECT_FALSE(fp8->linear()(x_, weight_).requires_grad());
}

TEST_F(Fp8, ZerosStayZeros) {
  const auto fp8 = make_fp8();
  const at::Tensor y = fp8->linear()(at::zeros_like(x_), weight_);
  EXPECT_EQ(y.abs().max().item<double>(), 0.0);
  y.backward(at::zeros_like(y));
  EXPECT_EQ(weight_.grad().abs().max().item<double>(), 0.0);
}

// The first use has no past; then the largest of the last two uses, and what exceeds it is clamped.
TEST_F(Fp8, DelayedScalingTakesThePast) {
  const auto fp8 = make_fp8("{scaling: delayed, history: 2}");
  const at::Tensor weight = rounded(weight_.detach(), at::kFloat8_e4m3fn);
  const at::Tensor x = x_.detach();
  const auto expect = [&](double factor, double past) {
    const at::Tensor input = x * factor;
    const at::Tensor expected = rounded(input, at::kFloat8_e4m3fn, x.abs().amax() * past);
    const at::Tensor y = fp8->linear()(input, weight_);
    EXPECT_LT(relative_error(y, at::mm(expected.flatten(0, 1), weight.t()).view({2, 16, 64})),
              kBfloat16)
        << factor << " after " << past;
  };
  expect(8.0, 8.0);  // its own
  expect(1.0, 8.0);
  expect(0.5, 8.0);
  expect(4.0, 1.0);  // the 8 is forgotten: all above 1 is clamped
  expect(1.0, 4.0);
}

TEST_F(Fp8, DelayedScalingOfGradients) {
  const auto fp8 = make_fp8("{scaling: delayed, history: 4}");
  const at::Tensor x = rounded(x_.detach(), at::kFloat8_e4m3fn).flatten(0, 1);
  const at::Tensor dy = (at::randn({2, 16, 64}) * 1e-5).to(at::kBFloat16);
  const at::Tensor amax = dy.abs().amax();
  for (const double factor : {1.0, 4.0}) {
    weight_.mutable_grad().reset();
    fp8->linear()(x_, weight_).backward(dy * factor);
    const at::Tensor rows = rounded(dy * factor, at::kFloat8_e5m2, amax).flatten(0, 1);
    EXPECT_LT(relative_error(weight_.grad(), at::mm(rows.t(), x)), kFloat) << factor;
  }
}

// Scales are of one layer: the past of another, or an evaluation, does not change them.
TEST_F(Fp8, ThePastIsOfOneLayerAndOfTrainingAlone) {
  const auto fp8 = make_fp8("{scaling: delayed}");
  const at::Tensor first = fp8->linear()(x_, weight_).detach();
  fp8->linear()(x_ * 100, weight_.detach().clone().requires_grad_());
  {
    const c10::NoGradGuard no_grad;
    fp8->linear()(x_ * 100, weight_);
  }
  EXPECT_TRUE(at::equal(fp8->linear()(x_, weight_), first));
}

// Two micro-batches add up: the second is scaled by the first, which was as large.
TEST_F(Fp8, MicroBatchesAddUp) {
  const auto fp8 = make_fp8("{scaling: delayed}");
  const at::Tensor dy = at::randn({2, 16, 64}).to(at::kBFloat16);
  fp8->linear()(x_, weight_).backward(dy);
  const at::Tensor once = weight_.grad().clone();
  fp8->linear()(x_, weight_).backward(dy);
  EXPECT_TRUE(at::equal(weight_.grad(), once * 2));
}

TEST_F(Fp8, SizesThatAGpuCannotMultiplyAreRefused) {
  const auto fp8 = make_fp8();
  for (const auto& [x, weight] : {std::pair{at::ones({16, 40}), at::ones({16, 40})},
                                  {at::ones({16, 16}), at::ones({24, 16})},
                                  {at::ones({3, 5, 16}).requires_grad_(), at::ones({16, 16})}}) {
    const std::string error = test::error_of<ConfigError>([&] { fp8->linear()(x, weight); });
    EXPECT_THAT(error, HasSubstr("multiples of 16")) << x.sizes() << weight.sizes();
  }
}

TEST_F(Fp8, WithoutGradientsThereMayBeAnyNumberOfRows) {
  const auto fp8 = make_fp8();
  const c10::NoGradGuard no_grad;
  const at::Tensor rows = x_.view({32, 48});
  rows[0].fill_(9);  // the largest of all and of those below: one scale
  EXPECT_TRUE(at::equal(fp8->linear()(rows.narrow(0, 0, 21), weight_),
                        fp8->linear()(rows, weight_).narrow(0, 0, 21)));
}

TEST_F(Fp8, RefusesInWords) {
  const RunDescription fits{
      .micro_batch = 2, .context_length = 8, .heads = 2, .head_dim = 8, .d_ff = 32};
  const auto reason = [&](auto change, const std::string& options = "{}") {
    RunDescription run = fits;
    change(run);
    return words_of(make_fp8(options)->unsupported(run));
  };
  EXPECT_EQ(reason([](RunDescription&) {}), "");
  EXPECT_THAT(reason([](RunDescription& s) { s.head_dim = 10; }), HasSubstr("d_model is 20"));
  EXPECT_THAT(reason([](RunDescription& s) { s.d_ff = 40; }), HasSubstr("d_ff is 40"));
  EXPECT_THAT(reason([](RunDescription& s) { s.micro_batch = 1; }), HasSubstr("micro-batch is 8"));
  EXPECT_THAT(reason([](RunDescription& s) { s.kernels = ddprun::KernelSet::fused; }),
              HasSubstr("`kernels: reference`"));
  EXPECT_THAT(reason([](RunDescription&) {}, "{history: 8}"), HasSubstr("no effect"));
  const auto on_gpu = [&](int capability) {
    return reason([&](RunDescription& s) {
      s.device = ddprun::DeviceKind::cuda;
      s.compute_capability = capability;
    });
  };
  EXPECT_EQ(on_gpu(90), "");
  EXPECT_EQ(on_gpu(89), "");
  EXPECT_THAT(on_gpu(80), HasSubstr("compute capability 8.9"));
}

}  // namespace
}  // namespace ddprun
