// The kernels of attention's softmax and its gradient at every SIMD level.
#include <algorithm>
#include <limits>

#include "ddprun/kernels/rows/softmax.h"
#include "support/kernel_arrays.h"

namespace ddprun {
namespace {

using kernels::bf16;
using kernels::KeyLanes;
using kernels::Matrix;
using kernels::Pair;
using kernels::QueryLanes;
using test::Array;
using test::expect_close;
using test::noise;

class Softmax : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, Softmax, test::every_target(), test::target_name);

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLanes = 48;
constexpr double kSubnormal = 0x1p-126;  // as large, and may be rounded to 0

/// Minus infinity where lane q of (rows, kLanes) does not see the key: it sees `seen` + q.
at::Tensor future_of_lanes(std::int64_t rows, std::int64_t seen) {
  at::Tensor mask = at::zeros({rows, kLanes}, at::kDouble);
  for (std::int64_t q = 0; q < kLanes; ++q) {
    const std::int64_t count = std::clamp<std::int64_t>(seen + q, 0, rows);
    mask.select(1, q).narrow(0, count, rows - count).fill_(-kInfinity);
  }
  return mask;
}

/// A softmax over tiles of `sizes` keys one after another, a query a lane, as forward does it.
struct Online {
  explicit Online(std::int64_t keys)
      : largest(at::full({kLanes}, -kInfinity)),
        sum(at::zeros({kLanes})),
        factor(at::zeros({kLanes})),
        probabilities(at::zeros({keys, kLanes}, at::kDouble)) {}

  /// Takes rows [first, first + count) of all scores.
  void step(const at::Tensor& scores, std::int64_t first, std::int64_t count, std::int64_t seen,
            float scale) {
    Array<float> tile(scores.narrow(0, first, count));
    const bool grown =
        kernels::online_softmax({count, kLanes, seen - first, scale}, tile.data(),
                                {largest.data(), sum.data()}, factor.data(), tile.data());
    EXPECT_TRUE(grown || at::equal(factor.values(), at::ones({kLanes}, at::kDouble)));
    if (first > 0) probabilities.mul_(factor.values());
    probabilities.narrow(0, first, count).copy_(tile.values());
  }

  Array<float> largest, sum, factor;
  at::Tensor probabilities;  // in double, relative to the sum
};

at::Tensor rounded(const at::Tensor& values) { return Array<bf16>(values).values(); }

Pair* as_pairs(Array<float>& values) { return reinterpret_cast<Pair*>(values.data()); }

/// Expects that the first half of `pairs` holds the rows of `values` in pairs, rounded.
void expect_rounded_pairs(Array<float>& pairs, const at::Tensor& values) {
  const std::int64_t rows = values.size(0);
  const std::int64_t steps = (rows + 1) / 2;
  const auto* const halves = &as_pairs(pairs)->first;
  at::Tensor got = at::empty({steps, 2 * values.size(1)}, at::kDouble);
  std::transform(halves, halves + got.numel(), got.data_ptr<double>(),
                 [](bf16 half) { return static_cast<double>(static_cast<float>(half)); });
  at::Tensor expected = at::zeros({2 * steps, values.size(1)}, at::kDouble);
  expected.narrow(0, 0, rows).copy_(rounded(values));
  expect_close(test::unpaired(got), expected, 0.0, kSubnormal);
}

TEST_P(Softmax, OnlineOfPairsIsThatOfFloat32Rounded) {
  for (const std::int64_t keys : {1, 16, 33}) {
    Array<float> scores(noise(keys, kLanes, 1));
    Array<float> pairs = scores;
    auto of_lanes = [] { return Array<float>(at::zeros({kLanes})); };
    Array<float> largest[] = {of_lanes(), of_lanes()};
    Array<float> sum[] = {of_lanes(), of_lanes()};
    auto factor = of_lanes();
    const QueryLanes tile = {keys, kLanes, 1, 0.5f};
    kernels::online_softmax(tile, scores.data(), {largest[0].data(), sum[0].data()}, factor.data(),
                            scores.data());
    kernels::online_softmax(tile, pairs.data(), {largest[1].data(), sum[1].data()}, factor.data(),
                            as_pairs(pairs));
    expect_rounded_pairs(pairs, scores.values());
    EXPECT_TRUE(at::equal(sum[0].values(), sum[1].values()));
  }
}

void check_online(std::int64_t keys, std::int64_t tile, std::int64_t seen, float scale,
                  double spread) {
  Array<float> scores(noise(keys, kLanes, 1) * spread);
  Online online(keys);
  for (std::int64_t first = 0; first < keys; first += tile) {
    online.step(scores.values(), first, std::min(tile, keys - first), seen, scale);
  }
  const at::Tensor masked = scores.values() * scale + future_of_lanes(keys, seen);
  Array<float> probabilities(online.probabilities);
  auto log_sum_exp = Array<float>::like(at::zeros({kLanes}));
  kernels::finish_softmax(keys, kLanes, scale, {online.largest.data(), online.sum.data()},
                          probabilities.data(), log_sum_exp.data());
  // Rounding of scale * (score - largest) moves the exponent by that much.
  const double exponent = 4 * spread * scale * 0x1p-23;
  expect_close(probabilities.values(), at::softmax(masked, 0), 40 * 0x1p-24 + 2 * exponent, 1e-37);
  expect_close(log_sum_exp.values(), at::logsumexp(masked, {0}), 0x1p-22, 1e-6);
}

TEST_P(Softmax, OnlineMatchesDouble) {
  for (const double spread : {1.0, 30.0}) {
    check_online(1, 1, 1, 1.0f, spread);
    check_online(40, 40, 40, 0.3f, spread);
    check_online(100, 32, 100, 0.25f, spread);  // all keys are seen
    check_online(48, 16, 1, 0.7f, spread);      // the diagonal, whole tiles above it
    check_online(90, 33, 50, 2.0f, spread);
  }
}

TEST_P(Softmax, ScalesLanes) {
  Array<float> values(noise(5, kLanes, 1));
  Array<float> factor(noise(1, kLanes, 2));
  const at::Tensor expected = values.values() * factor.values();
  kernels::scale_lanes(5, kLanes, factor.data(), values.data());
  expect_close(values.values(), expected, 0x1p-23, 0.0);
}

TEST_P(Softmax, ExtremeScoresGiveNoNan) {
  for (const float score : {1e4f, -1e4f, 3e38f}) {
    at::Tensor scores = at::zeros({4, kLanes}, at::kDouble);
    scores[2].fill_(score);
    Online online(4);
    online.step(scores, 0, 2, 4, 1.0f);
    online.step(scores, 2, 2, 4, 1.0f);
    const at::Tensor probabilities = online.probabilities / online.sum.values();
    EXPECT_NEAR(probabilities[2][0].item<double>(), score > 0 ? 1.0 : 0.0, 1e-6) << score;
    EXPECT_NEAR(probabilities.select(1, 0).sum().item<double>(), 1.0, 1e-6) << score;
  }
}

void check_backward(const KeyLanes& tile, double spread) {
  Array<float> scores(noise(tile.rows, tile.lanes, 1) * spread);
  Array<float> dscores(noise(tile.rows, tile.lanes, 2));
  at::Tensor masked = scores.values() * tile.scale;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t count = std::clamp<std::int64_t>(tile.seen + row, 0, tile.keys);
    masked[row].narrow(0, count, tile.lanes - count).fill_(-kInfinity);
  }
  // Keys before this tile may hold most of a row's probability.
  Array<float> log_sum_exp(at::logsumexp(masked, {-1}).clamp_min(0.0) + 0.5);
  Array<float> delta(noise(1, tile.rows, 3).view({tile.rows}));
  const at::Tensor expected = (masked - log_sum_exp.values().unsqueeze(-1)).exp();
  const at::Tensor expected_dscores =
      expected * (dscores.values() - delta.values().unsqueeze(-1)) * tile.scale;
  auto scores_of_pairs = scores;
  auto dscores_of_pairs = dscores;
  auto rows = Array<bf16>::like(dscores.values());
  kernels::softmax_backward(tile, log_sum_exp.data(), delta.data(), scores.data(), dscores.data(),
                            kernels::ScoreGradients<float>{scores.data(), dscores.data(), nullptr});
  kernels::softmax_backward(tile, log_sum_exp.data(), delta.data(), scores_of_pairs.data(),
                            dscores_of_pairs.data(),
                            kernels::ScoreGradients<Pair>{as_pairs(scores_of_pairs),
                                                          as_pairs(dscores_of_pairs), rows.data()});
  expect_rounded_pairs(scores_of_pairs, scores.values());
  expect_rounded_pairs(dscores_of_pairs, dscores.values());
  expect_close(rows.values(), rounded(dscores.values()), 0.0, kSubnormal);
  const double relative = 40 * 0x1p-24 + spread * tile.scale * 0x1p-21;
  expect_close(scores.values(), expected, relative, 1e-37);
  expect_close(dscores.values(), expected_dscores, relative, 1e-6 * tile.scale);
}

TEST_P(Softmax, BackwardMatchesDouble) {
  for (const double spread : {1.0, 30.0}) {
    check_backward({1, 16, 1, 1, 1.0f}, spread);
    check_backward({17, 48, 40, 40, 0.3f},
                   spread);                         // all keys are seen, lanes beyond them are none
    check_backward({33, 32, 32, 1, 0.7f}, spread);  // the diagonal
    check_backward({20, 32, 30, -5, 2.0f}, spread);  // the first rows see nothing
  }
}

template <class T>
void check_row_dots(std::int64_t width) {
  Array<T> a(noise(3, width + 5, 1)), b(noise(3, width, 2));
  auto out = Array<float>::like(at::zeros({3}));
  kernels::row_dots(Matrix<const T>{a.data(), 3, width, width + 5},
                    Matrix<const T>{b.data(), 3, width, width}, out.data());
  expect_close(out.values(), (a.values().narrow(1, 0, width) * b.values()).sum(-1), 0.0,
               1e-6 * static_cast<double>(width));
}

TEST_P(Softmax, RowDotsWithStrides) {
  for (const std::int64_t width : {1, 7, 64, 100}) {
    check_row_dots<float>(width);
    check_row_dots<bf16>(width);
  }
}

}  // namespace
}  // namespace ddprun
