// Comparisons of two rows' runs in words, from numbers made up for them.
#include "ddprun/result/comparison.h"

#include <cmath>

#include "support/matchers.h"

namespace ddprun {
namespace {

std::string words(double own, double base) { return words_of_times(compare({own}, {base})); }

TEST(Comparison, AShareOfTheTimeOrAFactor) {
  EXPECT_EQ(words(98.1, 100), "is 1.9 % faster than");
  EXPECT_EQ(words(101.9, 100), "takes 1.9 % longer than");
  EXPECT_EQ(words(50, 105), "is 2.10 times as fast as");
  EXPECT_EQ(words(210, 100), "takes 2.10 times as long as");
  EXPECT_EQ(words(149, 100), "takes 49.0 % longer than");
  EXPECT_EQ(words(150, 100), "takes 1.50 times as long as");
  EXPECT_EQ(words(67, 100), "is 33.0 % faster than");
  EXPECT_EQ(words(60, 100), "is 1.67 times as fast as");
  EXPECT_EQ(words(100.04, 100), "is as fast as");
  EXPECT_EQ(words(100, 100), "is as fast as");
}

TEST(Comparison, OneRunIsNotTested) {
  EXPECT_EQ(verdict(compare({1}, {2})), " (one run, not tested)");
  EXPECT_EQ(verdict(compare({1, 1}, {2, 3})), " (2 runs, not tested)");
  EXPECT_EQ(verdict(compare({1, 1, 1}, {2, 3})), " (2 runs, not tested)");
}

TEST(Comparison, TheVerdictIsThatOfTheTest) {
  // p = 0.0213: as in the test of welch_p.
  EXPECT_THAT(verdict(compare({1, 2, 3}, {4, 5, 6})), StartsWith(" (p = 0.021; 95 %: "));
  EXPECT_THAT(verdict(compare({1, 2, 3}, {2, 4, 6})), StartsWith(", within noise (p = 0.22; "));
  EXPECT_EQ(verdict(compare({1, 1.0001, 1.0002}, {4, 4.0001, 4.0002})),
            " (p < 0.001; 95 %: 4.00 to 4.00 times)");
}

TEST(Comparison, TheIntervalIsOfWhatTheSentenceSays) {
  Comparison c = compare({40, 41, 42}, {100, 101, 99.5});  // 0.39215 to 0.42662
  EXPECT_THAT(verdict(c), EndsWith("95 %: 2.34 to 2.55 times)"));
  c.told = Told::less;
  EXPECT_THAT(verdict(c), EndsWith("95 %: 57.3 to 60.8 %)"));
  c.told = Told::share;
  EXPECT_THAT(verdict(c), EndsWith("95 %: 39.2 to 42.7 %)"));
}

TEST(Comparison, IndependentRunsHaveAnIntervalToo) {
  // By Fieller's formula in Python: t = 2.85394342 of Satterthwaite's degrees of freedom.
  const Comparison c = compare({103, 104, 105}, {100, 101, 99.5});
  EXPECT_NEAR(c.interval->low, 1.0174369305966564, 1e-6);
  EXPECT_NEAR(c.interval->high, 1.0594300007425834, 1e-6);
  EXPECT_EQ(c.test, "Welch's t");
}

TEST(Comparison, TheIntervalEndsAtNoDifferenceWhereTheTestIsUndecided) {
  const Comparison c = compare({103, 104, 105.5}, {100, 102, 99});
  const Bounds bounds = *interval_of(c, 1 - *c.p);
  EXPECT_NEAR(bounds.low, 1, 1e-9);
  EXPECT_GT(bounds.high, 1.05);
}

TEST(Comparison, TheLargestOfSeveralIsHeldAgainstAllOfThem) {
  EXPECT_THAT(verdict(compare({1, 2, 3}, {4, 5, 6}, 5)),
              StartsWith(", within noise (p = 0.11; 95 %, not corrected: "));
  EXPECT_DOUBLE_EQ(compare({1, 2, 3}, {2, 4, 6}, 100).p.value(), 1);
}

TEST(Comparison, NotANumberIsNotTested) {
  const Comparison broken = compare({1, 2, std::nan("")}, {1, 2, 3});
  EXPECT_FALSE(broken.p);
  EXPECT_TRUE(to_json(broken)["p"].is_null());
  EXPECT_EQ(to_json(broken)["test"], "none");
}

}  // namespace
}  // namespace ddprun
