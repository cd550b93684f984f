// What is drawn, from what, and how often.
#include "ddprun/model/generate.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/matchers.h"

namespace ddprun::generate_test {
namespace {

/// After token t comes t + 1, of 5, with probability 1/2, and each other with 1/8.
at::Tensor successor(const at::Tensor& ids) {
  at::Tensor out = at::zeros({1, ids.size(1), 5});
  for (std::int64_t t = 0; t < ids.size(1); ++t) {
    out[0][t][(ids[0][t].item<std::int64_t>() + 1) % 5] = std::log(4.0);
  }
  return out;
}

TEST(Generate, TakesTheLikeliestTokenAtTemperatureZero) {
  EXPECT_THAT(generate(successor, {3}, 8, {.tokens = 4, .temperature = 0}),
              ElementsAre(4, 0, 1, 2));
}

TEST(Generate, DrawsAsOftenAsTheModelSays) {
  const auto share = [](double temperature) {
    const auto drawn =
        generate(successor, {0}, 1, {.tokens = 4000, .temperature = temperature, .seed = 7});
    std::int64_t previous = 0, hits = 0;
    for (const std::int64_t token : drawn) {
      hits += token == (previous + 1) % 5 ? 1 : 0;
      previous = token;
    }
    return static_cast<double>(hits) / 4000;
  };
  EXPECT_NEAR(share(1.0), 0.5, 0.03);        // four standard deviations
  EXPECT_NEAR(share(0.5), 16.0 / 20, 0.03);  // 4^2 of 4^2 + 4
}

TEST(Generate, DrawsFromTheNucleusAlone) {
  const auto drawn = [](double top_p) {
    return generate(successor, {0}, 1, {.tokens = 400, .temperature = 1, .top_p = top_p});
  };
  EXPECT_EQ(drawn(0.5), generate(successor, {0}, 1, {.tokens = 400, .temperature = 0}));
  std::set<std::int64_t> after_zero;  // 1, and the first of those with 1/8
  const auto few = drawn(0.6);
  for (std::size_t i = 1; i < few.size(); ++i) {
    if (few[i - 1] == 0) after_zero.insert(few[i]);
  }
  EXPECT_EQ(after_zero.size(), 2u);
}

TEST(Generate, SeesNoMoreThanTheContext) {
  std::int64_t longest = 0;
  const auto watched = [&](const at::Tensor& ids) {
    longest = std::max(longest, ids.size(1));
    return successor(ids);
  };
  EXPECT_EQ(generate(watched, {0, 1, 2}, 4, {.tokens = 9}).size(), 9u);
  EXPECT_EQ(longest, 4);
}

TEST(Generate, IsTheSameOfTheSameSeed) {
  const auto of = [](std::uint64_t seed) {
    return generate(successor, {0}, 4, {.tokens = 30, .temperature = 1, .seed = seed});
  };
  EXPECT_EQ(of(1), of(1));
  EXPECT_NE(of(1), of(2));
}

}  // namespace
}  // namespace ddprun::generate_test
