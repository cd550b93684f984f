// Tests of pairs, against what SciPy 1.17 gives: stats.permutation_test(..., "samples"),
// stats.bootstrap(..., method="BCa") of 400,000 samples, stats.ttest_1samp.
#include "ddprun/result/paired_test.h"

#include <cmath>
#include <random>

#include "support/matchers.h"

namespace ddprun::paired_test_test {
namespace {

using testing::DoubleEq;

const std::vector<double> kEven = {0.02,  0.013, -0.004, 0.018,  0.025,
                                   0.009, 0.03,  0.011,  -0.001, 0.016};
const std::vector<double> kSkewed = {0.5, 0.1, -0.2, 0.05, 0.9, 0.02, -0.1, 0.3, 0.01, -0.04, 0.2};
const std::vector<double> kMany = {-1,   1,   2,   -2,  3,   -3.5, 0.1, 0.4,
                                   -0.7, 1.2, 0.6, 0.9, 1.1, -0.3, 0.8};

TEST(PairedTest, PermutationsAreSciPys) {
  EXPECT_DOUBLE_EQ(sign_flip_p(kEven), 0.0078125);
  EXPECT_DOUBLE_EQ(sign_flip_p(kSkewed), 0.1181640625);
  EXPECT_NEAR(sign_flip_p(kMany), 0.58135986, 0.024) << "of 4,095 drawn ones: 3 sigma";
}

TEST(PairedTest, BootstrapIntervalsAreSciPys) {
  EXPECT_NEAR(bca_interval(kEven).low, 0.0071, 0.0004);
  EXPECT_NEAR(bca_interval(kEven).high, 0.0196, 0.0004);
  EXPECT_NEAR(bca_interval(kSkewed).low, 0.0218, 0.006);
  EXPECT_NEAR(bca_interval(kSkewed).high, 0.397, 0.012) << "far from the mean's other side";
  EXPECT_NEAR(bca_interval(kMany).low, -0.647, 0.04);
  EXPECT_NEAR(bca_interval(kMany).high, 0.927, 0.04);
  EXPECT_EQ(bca_interval({2, 2, 2}).low, 2);
}

TEST(PairedTest, FewRoundsAreStudents) {
  EXPECT_FALSE(test_of_rounds({1, 2}));
  EXPECT_FALSE(test_of_rounds({1, 2, std::nan("")}));
  EXPECT_NEAR(test_of_rounds({0.02, 0.013, -0.004})->p, 0.3077556217618815, 1e-12);
  const PairedTest four = *test_of_rounds({0.02, 0.013, 0.018, 0.016});
  EXPECT_NEAR(four.p, 0.001518292189679808, 1e-12);
  EXPECT_NEAR(four.interval.low, 0.01199848226001354, 1e-12);
  EXPECT_NEAR(four.interval.high, 0.021501517739986462, 1e-12);
  EXPECT_EQ(test_of_rounds({0, 0, 0})->p, 1);
  EXPECT_EQ(test_of_rounds({1, 1, 1})->p, 0);
  EXPECT_EQ(test_of_rounds(kEven)->p, sign_flip_p(kEven));
}

TEST(PairedTest, ManyRoundsAreDrawnBeyondAWordOfBits) {
  std::mt19937_64 dice(3);
  std::normal_distribution<double> noise;
  std::vector<double> shifted;
  for (int i = 0; i < 200; ++i) shifted.push_back(noise(dice) + 0.5);
  EXPECT_EQ(sign_flip_p(shifted), 1.0 / 4096) << "the one that was found";
  for (double& value : shifted) value -= 0.5;
  EXPECT_GT(sign_flip_p(shifted), 0.05);
}

/// Of 400 sets of `rounds` values around `mean`, how many a test tells from chance.
int told_apart(std::size_t rounds, double mean) {
  std::mt19937_64 dice(11);
  std::student_t_distribution<double> noise(4);  // of heavier tails than the normal one
  int told = 0;
  for (int set = 0; set < 400; ++set) {
    std::vector<double> values(rounds);
    for (double& value : values) value = mean + noise(dice);
    told += p_of_rounds(values) < 0.05 ? 1 : 0;
  }
  return told;
}

TEST(PairedTest, ChanceIsTakenForADifferenceInOneOfTwenty) {
  for (const std::size_t rounds : {5, 10, 12}) {
    EXPECT_LE(told_apart(rounds, 0), 33) << rounds;  // 20, and three standard deviations
    EXPECT_GE(told_apart(rounds, 3), 340) << rounds;
  }
}

TEST(Holm, CorrectsTheSmallestMost) {
  EXPECT_THAT(holm({0.01, 0.04, 0.03, 0.005}),
              ElementsAre(DoubleEq(0.03), DoubleEq(0.06), DoubleEq(0.06), DoubleEq(0.02)));
  EXPECT_THAT(holm({0.2}), ElementsAre(0.2));
  EXPECT_THAT(holm({0.5, 0.9}), ElementsAre(1, 1));
  EXPECT_TRUE(holm({}).empty());
}

}  // namespace
}  // namespace ddprun::paired_test_test
