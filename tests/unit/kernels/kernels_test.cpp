// The row-wise CPU kernels at every SIMD level against ATen and autograd in double.
#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "ddprun/kernels/rows/cross_entropy.h"
#include "ddprun/kernels/rows/embedding.h"
#include "ddprun/kernels/rows/rms_norm.h"
#include "ddprun/kernels/rows/rope.h"
#include "ddprun/kernels/rows/swiglu.h"
#include "support/kernel_arrays.h"

namespace ddprun {
namespace {

using kernels::bf16;
using test::Array;
using test::expect_close;
using test::kRounding;
using test::noise;

constexpr double kUlp = 0x1p-24;  // half of a float's last place, relative to the value
constexpr std::int64_t kWidths[] = {1, 7, 64, 100, 344, 10000};
constexpr std::int64_t kRows[] = {1, 3};

/// Relative error of a sum of positive values over a row, with what little follows it. It is added
/// up in four chains a lane; the level without vectors has the longest.
double sum_error(std::int64_t width) {
  const std::int64_t lanes = hwy::SupportedTargets() == HWY_SCALAR ? 1 : 4;
  return kUlp * static_cast<double>(8 + width / lanes / 250);
}

/// Calls check(T(), rows, width) for both types and all shapes.
template <class Check>
void for_all_shapes(const Check& check) {
  for (const std::int64_t rows : kRows) {
    for (const std::int64_t width : kWidths) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(width));
      check(float(), rows, width);
      check(bf16(), rows, width);
    }
  }
}

/// d sum(outputs * dy) / d inputs, by autograd.
std::vector<at::Tensor> gradients(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                                  const at::Tensor& dy) {
  return torch::autograd::grad({output}, inputs, {dy});
}

class RmsNorm : public test::EveryTarget {};
class Rope : public test::EveryTarget {};
class Swiglu : public test::EveryTarget {};
class CrossEntropy : public test::EveryTarget {};
class EmbeddingBackward : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, RmsNorm, test::every_target(), test::target_name);
INSTANTIATE_TEST_SUITE_P(, Rope, test::every_target(), test::target_name);
INSTANTIATE_TEST_SUITE_P(, Swiglu, test::every_target(), test::target_name);
INSTANTIATE_TEST_SUITE_P(, CrossEntropy, test::every_target(), test::target_name);
INSTANTIATE_TEST_SUITE_P(, EmbeddingBackward, test::every_target(), test::target_name);

constexpr float kEps = 1e-3f;

at::Tensor inverse_rms_of(const at::Tensor& x) {
  return x.square().mean(-1, true).add(static_cast<double>(kEps)).rsqrt();
}

TEST_P(RmsNorm, NormalizesAndKeepsTheInverse) {
  for_all_shapes([](auto type, std::int64_t rows, std::int64_t width) {
    using T = decltype(type);
    Array<float> x(noise(rows, width, 1) * 3);
    Array<float> weight(noise(1, width, 3) + 1.5);
    auto y = Array<T>::like(x.values());
    auto inverse_rms = Array<float>::like(at::empty({rows, 1}));
    const at::Tensor x_before = x.values();
    kernels::rms_norm(rows, width, kEps, x.data(), weight.data(), y.data(), inverse_rms.data());

    const at::Tensor inverse = inverse_rms_of(x_before);
    expect_close(inverse_rms.values(), inverse, sum_error(width), 0);
    expect_close(y.values(), x_before * inverse * weight.values(),
                 kRounding<T> + 4 * kUlp + sum_error(width), 0);
    EXPECT_TRUE(at::equal(x.values(), x_before));
  });
}

TEST_P(RmsNorm, BackwardEqualsAutograd) {
  for_all_shapes([](auto type, std::int64_t rows, std::int64_t width) {
    using T = decltype(type);
    for (const bool with_dsum : {true, false}) {
      for (const bool in_place : {true, false}) {
        Array<T> dy(noise(rows, width, 1));
        Array<float> x(noise(rows, width, 2) * 3);
        Array<float> weight(noise(1, width, 3) + 1.5);
        Array<float> dsum(noise(rows, width, 4));
        Array<float> dweight(noise(1, width, 5));
        auto dx = Array<float>::like(x.values());
        Array<float> inverse_rms(inverse_rms_of(x.values()));
        const at::Tensor dsum_before = dsum.values();
        const at::Tensor dweight_before = dweight.values();
        const bool alias = with_dsum && in_place;
        kernels::rms_norm_backward({rows, width, x.data(), weight.data(), inverse_rms.data()},
                                   dy.data(), with_dsum ? dsum.data() : nullptr,
                                   alias ? dsum.data() : dx.data(), dweight.data());

        const at::Tensor x_leaf = x.values().requires_grad_();
        const at::Tensor weight_leaf = weight.values().requires_grad_();
        const at::Tensor y = x_leaf * inverse_rms_of(x_leaf) * weight_leaf;
        const auto expected = gradients(y, {x_leaf, weight_leaf}, dy.values());
        const at::Tensor dx_expected = with_dsum ? dsum_before + expected[0] : expected[0];
        // What cancels is as large as dy * weight / rms.
        const double terms =
            test::largest(dy.values() * weight.values() * inverse_rms_of(x.values()));
        expect_close(alias ? dsum.values() : dx.values(), dx_expected, kUlp, 12 * kUlp * terms);
        expect_close(dweight.values(), dweight_before + expected[1], kUlp, 4 * kUlp * rows);
      }
    }
  });
}

TEST_P(Rope, TurnsPairsByTheirPositionAndBack) {
  constexpr std::int64_t kTime = 6;
  constexpr std::int64_t kFirstRow = 4;  // positions 4, 5, 0, 1, ...
  for (const std::int64_t head_dim : {2, 6, 16, 32, 80, 100}) {
    for (const std::int64_t heads : {1, 3}) {
      SCOPED_TRACE(std::to_string(heads) + " heads of " + std::to_string(head_dim));
      const auto check = [&](auto type, std::int64_t rows) {
        using T = decltype(type);
        const std::int64_t width = heads * head_dim;
        const std::int64_t stride = width + 5;
        const at::Tensor angle = noise(kTime, head_dim / 2, 1) * 3.0;
        Array<float> rotations(at::stack({angle.cos(), angle.sin()}, -1).flatten(-2));
        Array<T> x(noise(rows, stride, 2));
        const at::Tensor before = x.values();

        const at::Tensor position = (at::arange(rows) + kFirstRow).remainder(kTime);
        const at::Tensor turn = at::view_as_complex(rotations.values().unflatten(-1, {-1, 2}))
                                    .index_select(0, position);
        const auto turned = [&](const at::Tensor& rotation) {
          const at::Tensor heads_of_x =
              before.narrow(1, 0, width).contiguous().view({rows, heads, head_dim / 2, 2});
          return at::view_as_real(at::view_as_complex(heads_of_x) * rotation.unsqueeze(1))
              .reshape({rows, width});
        };
        for (const bool inverse : {false, true}) {
          Array<T> out(before);
          kernels::rope({rotations.data(), kTime, head_dim}, kFirstRow, inverse,
                        kernels::Matrix<T>{out.data(), rows, width, stride});
          expect_close(out.values().narrow(1, 0, width), turned(inverse ? turn.conj() : turn),
                       kRounding<T>, 3 * kUlp);
          EXPECT_TRUE(at::equal(out.values().narrow(1, width, 5), before.narrow(1, width, 5)));
        }
      };
      for (const std::int64_t rows : kRows) {
        check(float(), rows);
        check(bf16(), rows);
      }
    }
  }
}

/// What swiglu and its backward shall give, in double.
struct SwigluReference {
  SwigluReference(const at::Tensor& up_gate_values, const at::Tensor& dh) {
    const at::Tensor up_gate = up_gate_values.clone().requires_grad_();
    const std::int64_t width = dh.size(1);
    const at::Tensor output =
        at::silu(up_gate.narrow(1, width, width)) * up_gate.narrow(1, 0, width);
    d_up_gate = gradients(output, {up_gate}, dh)[0];
    h = output.detach();
  }
  at::Tensor h, d_up_gate;
};

TEST_P(Swiglu, EqualsAutograd) {
  for_all_shapes([](auto type, std::int64_t rows, std::int64_t width) {
    using T = decltype(type);
    Array<T> up_gate(noise(rows, 2 * width, 1) * 8);
    Array<T> dh(noise(rows, width, 2));
    const SwigluReference expected(up_gate.values(), dh.values());
    auto h = Array<T>::like(dh.values());
    kernels::swiglu(rows, width, up_gate.data(), h.data());
    expect_close(h.values(), expected.h, kRounding<T> + 8 * kUlp, 0);

    for (const bool in_place : {false, true}) {
      for (const bool with_h : {false, true}) {
        Array<T> input(up_gate.values());
        auto d_up_gate = Array<T>::like(up_gate.values());
        Array<T>& out = in_place ? input : d_up_gate;
        auto h_again = Array<T>::like(dh.values());
        kernels::swiglu_backward(rows, width, dh.data(), input.data(), out.data(),
                                 with_h ? h_again.data() : nullptr);
        // silu' is 0 near gate = -1.28, out of terms of about 0.3, times dh * up, which is 8.
        expect_close(out.values(), expected.d_up_gate, kRounding<T> + 8 * kUlp, 16 * kUlp);
        EXPECT_TRUE(
            at::equal(h_again.values(), with_h ? h.values() : Array<T>::like(h.values()).values()));
      }
    }
  });
}

TEST_P(Swiglu, NanStaysNan) {
  const at::Tensor nan = at::full({1, 20}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  Array<float> up_gate(at::cat({at::ones({1, 20}, at::kDouble), nan}, 1));
  auto h = Array<float>::like(nan);
  kernels::swiglu(1, 20, up_gate.data(), h.data());
  EXPECT_TRUE(h.values().isnan().all().item<bool>());
}

TEST_P(Swiglu, LargeGatesAreNoNan) {
  const std::vector<double> gates = {100, -100, 87,   -87,  88,    -88, 89,
                                     -89, 1e4,  -1e4, 3e38, -3e38, 0};
  const auto width = std::ssize(gates);
  const at::Tensor gate = at::tensor(gates, at::kDouble).unsqueeze(0);
  Array<float> up_gate(at::cat({at::full({1, width}, 0.5), gate}, 1));
  Array<float> dh(at::ones({1, width}, at::kDouble));
  auto h = Array<float>::like(dh.values());
  auto d_up_gate = Array<float>::like(up_gate.values());
  kernels::swiglu_backward(1, width, dh.data(), up_gate.data(), d_up_gate.data(), h.data());
  const SwigluReference expected(up_gate.values(), dh.values());
  // e^-gate ends at e^87, so that a sigmoid is at least 1.6e-38: which is 5 at a gate of -3e38.
  const at::Tensor bounded = gate.gt(-1e5).to(at::kDouble);
  expect_close(h.values() * bounded, expected.h * bounded, 4 * kUlp, 1e-33);
  expect_close(d_up_gate.values() * at::cat({bounded, bounded}, 1),
               expected.d_up_gate * at::cat({bounded, bounded}, 1), 4 * kUlp, 1e-33);
  EXPECT_TRUE(h.values().isfinite().all().item<bool>());
  EXPECT_TRUE(d_up_gate.values().isfinite().all().item<bool>());
}

/// Loss and gradient of one call on `logits`, which it may overwrite.
template <class L, class G>
void check_cross_entropy(const at::Tensor& logits, bool in_place) {
  const std::int64_t rows = logits.size(0);
  const std::int64_t vocab = logits.size(1);
  constexpr float kScale = 0.25f;
  Array<L> in(logits);
  auto separate = Array<G>::like(logits);
  const at::Tensor targets = (at::arange(rows) * 7919 + vocab / 2).remainder(vocab);
  const at::Tensor x = in.values().requires_grad_();
  const at::Tensor loss = -at::log_softmax(x, -1).gather(1, targets.unsqueeze(1)).sum();
  const at::Tensor expected = gradients(loss, {x}, at::ones({}, at::kDouble))[0] * kScale;
  const double size = test::largest(in.values());

  const std::int64_t* const ids = targets.const_data_ptr<std::int64_t>();
  G* out = separate.data();
  if constexpr (std::is_same_v<L, G>) {
    if (in_place) out = in.data();
  }
  const double alone =
      kernels::cross_entropy(rows, vocab, in.data(), ids, kScale, static_cast<G*>(nullptr));
  const double with_gradient = kernels::cross_entropy(rows, vocab, in.data(), ids, kScale, out);
  EXPECT_EQ(alone, with_gradient);
  // The sum of exponentials, and x - max, which is relative to x.
  EXPECT_NEAR(alone, loss.item<double>(), rows * (sum_error(vocab) + kUlp * size));
  const at::Tensor got = out == separate.data() ? separate.values() : in.values();
  // Relative even where a probability is tiny, unless below the smallest float; 1 - p cancels.
  const double relative = kRounding<G> + sum_error(vocab) + kUlp * 2 * size;
  expect_close(got, expected, relative, 4 * kUlp * kScale * (vocab < 20 ? 1 : 0) + 1e-38);
}

TEST_P(CrossEntropy, EqualsAutograd) {
  for (const std::int64_t rows : kRows) {
    for (const std::int64_t vocab : {1, 7, 64, 100, 344, 2048, 2049, 10000, 32000}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(vocab));
      const at::Tensor logits = noise(rows, vocab, 1) * 6;
      for (const bool in_place : {false, true}) {
        check_cross_entropy<float, float>(logits, in_place);
        check_cross_entropy<float, bf16>(logits, in_place);
        check_cross_entropy<bf16, bf16>(logits, in_place);
      }
    }
  }
}

TEST_P(CrossEntropy, ExtremeLogits) {
  at::Tensor logits = noise(3, 5000, 1) * 1e4;
  logits[0].slice(0, 0, 5000, 3).fill_(-std::numeric_limits<double>::infinity());
  logits[1].fill_(-1e4);
  logits[2].fill_(1e4);
  auto dlogits = Array<float>::like(logits);
  Array<float> in(logits);
  const std::int64_t targets[] = {1, 4999, 0};
  const double loss = kernels::cross_entropy(3, 5000, in.data(), targets, 1.0f, dlogits.data());
  const double expected = -at::log_softmax(in.values(), -1)
                               .gather(1, at::tensor({1, 4999, 0}, at::kLong).unsqueeze(1))
                               .sum()
                               .item<double>();
  EXPECT_NEAR(loss, expected, 2e4 * kUlp * 4);
  EXPECT_TRUE(dlogits.values().isfinite().all().item<bool>());
  // In each row the gradient adds up to 0.
  expect_close(dlogits.values().sum(-1), at::zeros({3}, at::kDouble), 0, 1e-6);
}

TEST_P(CrossEntropy, NanStaysNan) {
  at::Tensor logits = noise(1, 5000, 1);
  logits[0][3] = std::numeric_limits<double>::quiet_NaN();
  Array<float> in(logits);
  auto dlogits = Array<float>::like(logits);
  const std::int64_t target = 4000;
  EXPECT_TRUE(
      std::isnan(kernels::cross_entropy(1, 5000, in.data(), &target, 1.0f, dlogits.data())));
  EXPECT_TRUE(dlogits.values().isnan().all().item<bool>());
}

TEST_P(EmbeddingBackward, AddsRowsWithinTheColumns) {
  constexpr std::int64_t kVocab = 9;
  const std::vector<std::int64_t> ids = {3, 8, 3, 0, 3, 5};
  const auto rows = std::ssize(ids);
  for (const std::int64_t width : kWidths) {
    const std::int64_t begin = width / 3;
    const std::int64_t end = width - width / 5;
    // Integers: sums are exact.
    Array<float> dx(at::floor(noise(rows, width, 1) * 100));
    Array<float> gradient(at::floor(noise(kVocab, width, 2) * 100));
    at::Tensor expected = gradient.values();
    for (std::int64_t row = 0; row < rows; ++row) {
      expected[ids[row]].slice(0, begin, end).add_(dx.values()[row].slice(0, begin, end));
    }
    kernels::embedding_backward(rows, width, begin, end, dx.data(), ids.data(), gradient.data());
    EXPECT_TRUE(at::equal(gradient.values(), expected)) << "width " << width;
  }
}

}  // namespace
}  // namespace ddprun
