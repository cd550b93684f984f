// The kernels of tiled attention: softmax and its gradient at every SIMD level.
#include <limits>

#include "ddprun/kernels/softmax.h"
#include "support/kernel_arrays.h"

namespace ddprun {
namespace {

using kernels::bf16;
using kernels::Tile;
using test::Array;
using test::expect_close;
using test::kRounding;
using test::noise;

class Softmax : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, Softmax, test::every_target(), test::target_name);

const Tile kTiles[] = {{1, 1, 0, true, 1.0f},     {3, 3, 0, true, 0.7f},
                       {5, 40, 35, true, 0.3f},   {17, 100, 83, true, 2.f},
                       {4, 100, 0, false, 0.25f}, {2, 129, 300, true, 1.f}};

/// Minus infinity where a row does not see.
at::Tensor mask_of(const Tile& tile) {
  at::Tensor mask = at::zeros({tile.rows, tile.columns}, at::kDouble);
  for (std::int64_t r = 0; tile.causal && r < tile.rows; ++r) {
    const std::int64_t visible = std::min(tile.first_row + r + 1, tile.columns);
    mask[r]
        .narrow(0, visible, tile.columns - visible)
        .fill_(-std::numeric_limits<double>::infinity());
  }
  return mask;
}

template <class T>
void check_softmax(const Tile& tile, double spread) {
  Array<float> scores(noise(tile.rows, tile.columns, 1) * spread);
  Array<float> dprobabilities(noise(tile.rows, tile.columns, 2));
  const at::Tensor masked = scores.values() * tile.scale + mask_of(tile);
  const at::Tensor expected = at::softmax(masked, -1);
  const at::Tensor lse = at::logsumexp(masked, {-1});

  Array<float> kept(scores.values());
  auto probabilities = Array<T>::like(expected);
  auto log_sum_exp = Array<float>::like(lse);
  kernels::softmax(tile, scores.data(), probabilities.data(), log_sum_exp.data());
  const double relative = 20 * 0x1p-24 + (std::is_same_v<T, float> ? 0.0 : kRounding<T>);
  // Rounding of scale * (score - largest) moves the exponent by that much.
  const double exponent = 4 * spread * tile.scale * 0x1p-23;
  expect_close(probabilities.values(), expected, relative + exponent, 1e-37);
  expect_close(log_sum_exp.values(), lse, 0x1p-22, 1e-6);

  const at::Tensor delta_values = (expected * dprobabilities.values()).sum(-1);
  Array<float> delta(delta_values);
  auto again = Array<T>::like(expected);
  auto dscores = Array<T>::like(expected);
  kernels::softmax_backward(tile, kept.data(), dprobabilities.data(), log_sum_exp.data(),
                            delta.data(), again.data(), dscores.data());
  const double backward = relative + exponent + 2e-6 + spread * tile.scale * 0x1p-22;
  expect_close(again.values(), expected, backward, 1e-37);
  const at::Tensor expected_dscores =
      expected * (dprobabilities.values() - delta_values.unsqueeze(-1)) * tile.scale;
  expect_close(dscores.values(), expected_dscores, backward, 1e-6 * tile.scale);
}

TEST_P(Softmax, MatchesDoubleForwardAndBackward) {
  for (const Tile& tile : kTiles) {
    for (const double spread : {1.0, 30.0}) {
      check_softmax<float>(tile, spread);
      check_softmax<bf16>(tile, spread);
    }
  }
}

TEST_P(Softmax, FloatWorksInPlace) {
  const Tile tile{5, 40, 35, true, 0.3f};
  Array<float> scores(noise(5, 40, 1));
  Array<float> same(scores.values());
  auto apart = Array<float>::like(scores.values());
  Array<float> lse(at::zeros({5}));
  kernels::softmax(tile, scores.data(), apart.data(), lse.data());
  kernels::softmax(tile, same.data(), same.data(), lse.data());
  EXPECT_TRUE(at::equal(same.values(), apart.values()));
}

TEST_P(Softmax, ExtremeScoresGiveNoNan) {
  for (const float score : {1e4f, -1e4f, 3e38f}) {
    at::Tensor values = at::zeros({1, 20}, at::kDouble);
    values[0][3] = score;
    Array<float> scores(values);
    auto probabilities = Array<float>::like(values);
    Array<float> lse(at::zeros({1}));
    kernels::softmax({1, 20, 0, false, 1.0f}, scores.data(), probabilities.data(), lse.data());
    EXPECT_NEAR(probabilities.values().sum().item<double>(), 1.0, 1e-6) << score;
    EXPECT_NEAR(probabilities.values()[0][3].item<double>(), score > 0 ? 1.0 : 0.0, 1e-6);
  }
}

TEST_P(Softmax, RowDotsWithStrides) {
  for (const std::int64_t width : {1, 7, 64, 100}) {
    Array<float> a(noise(3, width + 5, 1));
    Array<bf16> c(noise(3, width + 5, 1));
    Array<float> b(noise(3, width, 2));
    Array<bf16> d(noise(3, width, 2));
    auto out = Array<float>::like(at::zeros({3}));
    const auto expected = [&](const auto& left, const auto& right) {
      return (left.values().narrow(1, 0, width) * right.values()).sum(-1);
    };
    kernels::row_dots(3, width, a.data(), width + 5, b.data(), width, out.data());
    expect_close(out.values(), expected(a, b), 0.0, 1e-6 * static_cast<double>(width));
    kernels::row_dots(3, width, c.data(), width + 5, d.data(), width, out.data());
    expect_close(out.values(), expected(c, d), 0.0, 1e-6 * static_cast<double>(width));
  }
}

}  // namespace
}  // namespace ddprun
