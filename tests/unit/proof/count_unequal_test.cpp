// What counts as another element, and what does not.
#include "ddprun/proof/drawn_run.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ddprun {
namespace {

TEST(CountUnequal, CountsWhatIsOther) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    const at::Tensor expected = at::arange(1, 101, dtype);
    at::Tensor got = expected.clone();
    EXPECT_EQ(count_unequal(got, expected), 0) << dtype;
    got[0] = 7;
    got[99] = 7;
    EXPECT_EQ(count_unequal(got, expected), 2) << dtype;
    EXPECT_EQ(count_unequal(got.slice(0, 1, 99), expected.slice(0, 1, 99)), 0) << dtype;
    EXPECT_EQ(count_unequal(got.slice(0, 0, 100, 3), expected.slice(0, 0, 100, 3)), 2) << dtype;
  }
}

TEST(CountUnequal, TakesEachZeroAndEachNaNForAnother) {
  const at::Tensor expected = at::tensor({0.0F, NAN, NAN, 1.0F});
  EXPECT_EQ(count_unequal(expected, expected), 0);
  EXPECT_EQ(count_unequal(at::tensor({-0.0F, -NAN, NAN, 1.0F}), expected), 0);
  EXPECT_EQ(count_unequal(at::tensor({0.0F, 1.0F, NAN, NAN}), expected), 2);
}

TEST(DrawnRun, LiesAnywhereInItsPart) {
  for (const std::int64_t size : {5, 40, 5000}) {
    const Range part = {7, 7 + size};
    std::int64_t begin = part.end, end = part.begin;
    for (std::uint64_t draw = 0; draw < 5000; ++draw) {
      const Range run = drawn_run(part, draw);
      ASSERT_TRUE(part.contains(run));
      begin = std::min(begin, run.begin);
      end = std::max(end, run.end);
    }
    EXPECT_EQ(begin, part.begin);
    EXPECT_EQ(end, part.end) << "of " << size;
  }
}

TEST(CountUnequal, ToleratesAPartOfTheLargest) {
  const at::Tensor expected = at::tensor({100.0F, 1.0F});
  EXPECT_EQ(count_unequal(at::tensor({100.0F, 1.9F}), expected, 0.01), 0);
  EXPECT_EQ(count_unequal(at::tensor({102.0F, 1.9F}), expected, 0.01), 1);
  EXPECT_EQ(count_unequal(at::tensor({100.0F, 1.9F}), expected), 1);
}

}  // namespace
}  // namespace ddprun
