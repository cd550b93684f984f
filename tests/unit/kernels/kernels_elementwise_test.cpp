// The element-wise CPU kernels at every SIMD level: conversions bit for bit, the optimizers'
// copies.
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "ddprun/base/counter_hash.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/kernels/rows/normal_values.h"
#include "ddprun/kernels/rows/optimizer.h"
#include "support/kernel_arrays.h"

namespace ddprun {
namespace {

using kernels::bf16;
using test::Array;
using test::expect_close;
using test::noise;

constexpr std::int64_t kCounts[] = {0, 1, 7, 64, 100, 344, 10000};

class Convert : public test::EveryTarget {};
class OptimizerLoops : public test::EveryTarget {};
class NormalValues : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, Convert, test::every_target(), test::target_name);
INSTANTIATE_TEST_SUITE_P(, OptimizerLoops, test::every_target(), test::target_name);
INSTANTIATE_TEST_SUITE_P(, NormalValues, test::every_target(), test::target_name);

TEST_P(Convert, RoundsToNearestEvenBitForBit) {
  // Every upper half of a float, with lower halves below, at and above a tie.
  std::vector<float> from;
  for (std::uint32_t upper = 0; upper < 0x10000u; ++upper) {
    for (const std::uint32_t lower : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      from.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::vector<bf16> to(from.size());
  kernels::to_bf16(std::ssize(from), from.data(), to.data());
  for (std::size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(to[i].x, bf16(from[i]).x) << from[i];
  }
}

TEST_P(Convert, WritesWhatItIsGiven) {
  for (const std::int64_t count : kCounts) {
    Array<float> wide(noise(1, count, 1));
    auto narrow = Array<bf16>::like(wide.values());
    kernels::to_bf16(count, wide.data(), narrow.data());
    EXPECT_TRUE(at::equal(narrow.values(), Array<bf16>(wide.values()).values())) << count;
  }
}

// At any address, and nothing beside it.
TEST_P(Convert, CopiesPastTheCachesBytesAlone) {
  std::vector<std::uint8_t> from(1200);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 + 1);
  for (const std::int64_t bytes : {0, 1, 63, 64, 65, 300, 1000}) {
    for (const std::int64_t begin : {0, 1, 31, 64, 100}) {
      std::vector<std::uint8_t> to(from.size(), 0xFF);
      kernels::copy_past_caches(bytes, from.data() + 3, to.data() + begin);
      std::vector<std::uint8_t> expected(from.size(), 0xFF);
      std::copy_n(from.begin() + 3, bytes, expected.begin() + begin);
      EXPECT_EQ(to, expected) << bytes << " bytes to " << begin;
    }
  }
}

template <class T>
void check_add(std::int64_t count, bool in_place) {
  Array<float> x(noise(1, count, 1));
  Array<T> y(noise(1, count, 2));
  auto separate = Array<float>::like(x.values());
  const Array<float> expected(x.values() + y.values());
  Array<float>& out = in_place ? x : separate;
  kernels::add(count, x.data(), y.data(), out.data());
  EXPECT_TRUE(at::equal(out.values(), expected.values())) << count;
}

TEST_P(Convert, AddRoundsOnce) {
  for (const std::int64_t count : kCounts) {
    for (const bool in_place : {false, true}) {
      check_add<float>(count, in_place);
      check_add<bf16>(count, in_place);
    }
  }
}

TEST_P(Convert, AccumulateScaledAdds) {
  constexpr double kScale = 0.3f;
  for (const std::int64_t count : kCounts) {
    if (count == 0) continue;
    Array<float> x(noise(1, count, 1));
    Array<float> out(noise(1, count, 2));
    const at::Tensor expected = out.values() + x.values() * kScale;
    kernels::accumulate_scaled(count, kScale, x.data(), out.data());
    // Without fused multiply-add, the product is rounded as well; it is below 0.3.
    expect_close(out.values(), expected, 0x1p-24, 0x1p-26);
  }
}

/// Parameters and state after three steps.
struct Trajectory {
  Array<float> parameter, mean, square;
};

/// loop(count, gradient, parameter, mean, square, copy) is one step.
template <class Loop>
Trajectory run(std::int64_t count, bf16* copy, const Loop& loop) {
  const at::Tensor initial = noise(1, count, 1);
  Trajectory state{Array<float>(initial), Array<float>(at::zeros_like(initial)),
                   Array<float>(at::zeros_like(initial))};
  for (int step = 0; step < 3; ++step) {
    Array<float> gradient(noise(1, count, 10 + step));
    loop(count, gradient.data(), state.parameter.data(), state.mean.data(), state.square.data(),
         copy);
  }
  return state;
}

/// As long as what it returns lives, kernels run at the level that this CPU runs by default.
[[nodiscard]] auto take_best_target() {
  const std::int64_t before = hwy::SupportedTargets();
  hwy::SetSupportedTargetsForTest(0);
  return c10::make_scope_exit([before] { hwy::SetSupportedTargetsForTest(before); });
}

template <class Loop>
void check_loop(const Loop& loop) {
  for (const std::int64_t count : kCounts) {
    SCOPED_TRACE(count);
    const Trajectory plain = run(count, nullptr, loop);
    const at::Tensor rounded = Array<bf16>(plain.parameter.values()).values();

    Array<bf16> anywhere = Array<bf16>::like(plain.parameter.values());
    const Trajectory copied = run(count, anywhere.data(), loop);
    EXPECT_TRUE(at::equal(copied.parameter.values(), plain.parameter.values()));
    EXPECT_TRUE(at::equal(anywhere.values(), rounded));

    // At a cache line's begin, where it is written past the caches.
    constexpr std::int64_t kLine = 32;
    const at::Tensor lines = at::full({1, count + kLine}, 512.0, at::kBFloat16);
    const Trajectory streamed = run(count, lines.data_ptr<bf16>(), loop);
    EXPECT_TRUE(at::equal(streamed.parameter.values(), plain.parameter.values()));
    EXPECT_TRUE(at::equal(lines.narrow(1, 0, count).to(at::kDouble), rounded));
    EXPECT_TRUE((lines.narrow(1, count, kLine) == 512.0).all().item<bool>()) << "past the array";

    const auto best_target = take_best_target();
    const Trajectory best = run(count, nullptr, loop);
    EXPECT_TRUE(at::equal(plain.parameter.values(), best.parameter.values()));
    EXPECT_TRUE(at::equal(plain.mean.values(), best.mean.values()));
    EXPECT_TRUE(at::equal(plain.square.values(), best.square.values()));
  }
}

TEST_P(OptimizerLoops, AdamwHasTheBitsOfEveryLevelAndFillsTheCopy) {
  const kernels::AdamwFactors factors{.gradient_scale = 0.3f,
                                      .decay = 0.9997f,
                                      .beta1_complement = 0.1f,
                                      .beta2 = 0.95f,
                                      .beta2_complement = 0.05f,
                                      .bias2_sqrt = 0.37f,
                                      .eps = 1e-8f,
                                      .step_size = 1.7e-3f};
  check_loop([&](std::int64_t count, const float* gradient, float* parameter, float* mean,
                 float* square, bf16* copy) {
    kernels::adamw_loop(factors, count, gradient, parameter, mean, square, copy);
  });
}

constexpr kernels::SgdFactors kSgd{
    .gradient_scale = 0.3f, .weight_decay = 0.01f, .momentum = 0.9f, .lr = 0.1f};

TEST_P(OptimizerLoops, SgdHasTheBitsOfEveryLevelAndFillsTheCopy) {
  check_loop([](std::int64_t count, const float* gradient, float* parameter, float*, float*,
                bf16* copy) { kernels::sgd_loop(kSgd, count, gradient, parameter, copy); });
}

TEST_P(OptimizerLoops, MomentumHasTheBitsOfEveryLevelAndFillsTheCopy) {
  check_loop([](std::int64_t count, const float* gradient, float* parameter, float* velocity,
                float*, bf16* copy) {
    kernels::sgd_momentum_loop(kSgd, count, gradient, parameter, velocity, copy);
  });
}

TEST_P(OptimizerLoops, SquareSumHasTheBitsOfEveryLevel) {
  for (const std::int64_t count : kCounts) {
    Array<float> values(noise(1, count, 1));
    const double sum = kernels::square_sum(values.data(), count);
    const double expected = values.values().square().sum().item<double>();
    EXPECT_NEAR(sum, expected, 1e-13 * expected);
    const auto best_target = take_best_target();
    EXPECT_EQ(kernels::square_sum(values.data(), count), sum);
  }
}

/// Box-Muller in float64, of the same bits.
double normal_value(std::uint64_t bits) {
  const double radius = (static_cast<double>(bits >> 41) + 0.5) * 0x1p-23;
  const double angle = static_cast<double>(bits & 0x7FFFFF) * 0x1p-23;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

TEST_P(NormalValues, AreBoxMullersOfTheStreamDrawnAgainBeyondThree) {
  constexpr std::uint64_t kKey = 12345;
  constexpr std::int64_t kCount = 1 << 18;
  Array<float> values(at::zeros({kCount}));
  kernels::write_normal_values(mix_bits(kKey), 0, kCount, 0.5F, values.data());
  std::int64_t again = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    std::uint64_t bits = counter_hash(kKey, static_cast<std::uint64_t>(i));
    for (; std::abs(normal_value(bits)) > 3; ++again) bits = mix_bits(bits + 1);
    ASSERT_NEAR(values.data()[i], 0.5 * normal_value(bits), 1e-6) << i;
  }
  EXPECT_GT(again, kCount / 500);
}

TEST_P(NormalValues, DependOnTheirNumberAlone) {
  Array<float> all(at::zeros({100}));
  kernels::write_normal_values(7, 0, 100, 1, all.data());
  for (const std::int64_t begin : {0, 1, 13, 64}) {
    Array<float> part(at::zeros({100 - begin}));
    kernels::write_normal_values(7, begin, 100, 1, part.data());
    for (std::int64_t i = begin; i < 100; ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(part.data()[i - begin]),
                std::bit_cast<std::uint32_t>(all.data()[i]))
          << begin << ", " << i;
    }
  }
}

}  // namespace
}  // namespace ddprun
