// The integers of the proof are right at any number of ranks: pure arithmetic, no rank runs.
#include "ddprun/proof/proof_integers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace ddprun {
namespace {

using kernels::kEach;

constexpr std::array kDtypes = {at::kFloat, at::kBFloat16};

float rounded(float value, at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? static_cast<float>(at::BFloat16(value)) : value;
}

/// The mean of all ranks, or what one rank adds, in one micro-batch or each.
float sum(const ProofIntegers::Contributions& of, int ranks, int rank = kEach,
          int micro_batch = kEach) {
  int sum = 0;
  for (const kernels::DrawnInteger& each : of.both) {
    const bool here = rank == kEach || each.rank == rank;
    if (here && (micro_batch == kEach || each.micro_batch == micro_batch)) sum += each.value;
  }
  return static_cast<float>(sum) * static_cast<float>(rank == kEach ? 1 : ranks) * of.unit;
}

/// What ranks get for an element if they add in `dtype`, and divide before or after.
struct Reduction {
  bool divide_first = false;
  bool by_reciprocal = false;

  float operator()(const ProofIntegers::Contributions& of, int ranks, at::ScalarType dtype) const {
    const auto divide = [&](float value) {
      const auto size = static_cast<float>(ranks);
      return rounded(by_reciprocal ? value * (1.0F / size) : value / size, dtype);
    };
    float sum = 0;
    // All other ranks add zero, which changes nothing. The order of two is the same either way.
    for (const auto& each : of.both) {
      const auto whole = static_cast<double>(each.value) * ranks;
      const float gradient = rounded(static_cast<float>(whole * of.unit), dtype);
      sum = rounded(sum + (divide_first ? divide(gradient) : gradient), dtype);
    }
    return divide_first ? sum : divide(sum);
  }
};

TEST(ProofIntegers, EveryWayToReduceIsWithinTheBoundUpTo4096Ranks) {
  for (const at::ScalarType dtype : kDtypes) {
    for (int ranks = 1; ranks <= 4096; ++ranks) {
      const ProofIntegers integers(ranks, 1, dtype, 7);
      for (std::int64_t element = 0; element < 64; ++element) {
        const auto of = integers.contributions(element);
        const float mean = sum(of, ranks);
        for (const bool divide_first : {false, true}) {
          for (const bool by_reciprocal : {false, true}) {
            const float got = Reduction{divide_first, by_reciprocal}(of, ranks, dtype);
            ASSERT_LE(std::abs(got - mean), integers.bound(of))
                << ranks << " ranks, " << dtype << ", element " << element;
          }
        }
      }
    }
  }
}

TEST(ProofIntegers, AreExactInBfloat16UpTo256Ranks) {
  for (int ranks = 1; ranks <= 256; ++ranks) {
    const ProofIntegers integers(ranks, 1, at::kBFloat16, 0);
    EXPECT_TRUE(integers.exact()) << ranks;
    EXPECT_EQ(integers.bound(integers.contributions(0)), 0.0F);
  }
}

TEST(ProofIntegers, HaveABoundFarBelowOneIntegerWhereBfloat16IsNotExact) {
  const ProofIntegers integers(257, 1, at::kBFloat16, 0);
  EXPECT_FALSE(integers.exact());
  EXPECT_EQ(integers.range(), 1);
  const auto of = integers.contributions(0);
  EXPECT_GT(integers.bound(of), 0.0F);
  EXPECT_LT(integers.bound(of), 0.1F * of.unit) << "a missing rank changes the mean by a unit";
  EXPECT_TRUE(ProofIntegers(4096, 1, at::kBFloat16, 0).exact()) << "a power of two costs no bits";
}

TEST(ProofIntegers, AreExactInFloat32WhereNoReciprocalRounds) {
  for (const int ranks : {1, 2, 3, 4, 5, 8, 64, 4096}) {
    EXPECT_TRUE(ProofIntegers(ranks, 1, at::kFloat, 0).exact()) << ranks;
  }
  EXPECT_FALSE(ProofIntegers(7, 1, at::kFloat, 0).exact());
  EXPECT_FALSE(ProofIntegers(35, 1, at::kFloat, 0).exact()) << "7 groups of 5";
}

TEST(ProofIntegers, PartialSumsInFloat32AreExactUpTo4096Ranks) {
  for (int ranks = 1; ranks <= 4096; ++ranks) {
    const ProofIntegers integers(ranks, 1, at::kFloat, 0);
    for (std::int64_t element = 0; element < 64; ++element) {
      const auto of = integers.contributions(element);
      const double sum = static_cast<double>(of.both[0].value) + of.both[1].value;
      ASSERT_EQ(static_cast<double>(static_cast<float>(sum * ranks)), sum * ranks) << ranks;
    }
  }
}

TEST(ProofIntegers, HaveTheBitsAndTheSizesOfGradients) {
  for (const at::ScalarType dtype : kDtypes) {
    const ProofIntegers integers(2, 1, dtype, 5);
    int tiny = 0, small = 0, large = 0, denormal = 0, last_bit = 0;
    for (std::int64_t element = 0; element < 10000; ++element) {
      const auto of = integers.contributions(element);
      const float size = std::abs(sum(of, 2));
      denormal += size != 0 && size < 0x1p-126F;
      const int one = std::abs(of.both[0].value);
      last_bit += one % 2 == 1 && one > integers.range() / 2;
      tiny += size != 0 && size < 0x1p-20F;
      small += size >= 0x1p-20F && size < 0x1p-10F;
      large += size >= 0x1p-10F;
      EXPECT_LE(size, 2.0F);
    }
    EXPECT_GT(tiny, 2000) << dtype;
    EXPECT_GT(small, 2000) << dtype;
    EXPECT_GT(large, 2000) << dtype;
    EXPECT_GT(denormal, 30) << dtype;
    EXPECT_GT(last_bit, 2000) << dtype << ": its loss must show";
  }
}

TEST(ProofIntegers, EachRankTakesPartInEachRunOfAsManyElements) {
  for (const int ranks : {1, 2, 3, 8, 128, 1000}) {
    const ProofIntegers integers(ranks, 1, at::kBFloat16, 3);
    for (std::int64_t block = 0; block < 5; ++block) {
      std::set<int> seen;
      for (std::int64_t i = 0; i < ranks; ++i) {
        const auto [both, unit] = integers.contributions(block * ranks + i);
        seen.insert(both[0].rank);
        EXPECT_TRUE(ranks == 1 || both[0].rank != both[1].rank);
      }
      EXPECT_EQ(std::ssize(seen), ranks);
    }
  }
}

TEST(ProofIntegers, TheGradientsOfAllRanksAndMicroBatchesHaveTheMean) {
  for (const int ranks : {1, 2, 5}) {
    const ProofIntegers integers(ranks, 2, at::kFloat, 11);
    std::set<float> means;
    bool first_micro_batch_counts = false;
    for (std::int64_t element = 0; element < 100; ++element) {
      const auto of = integers.contributions(element);
      float all = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const float early = sum(of, ranks, rank, 0);
        const float late = sum(of, ranks, rank, 1);
        EXPECT_EQ(early + late, sum(of, ranks, rank));
        first_micro_batch_counts = first_micro_batch_counts || early != 0;
        all += early + late;
      }
      EXPECT_EQ(all / static_cast<float>(ranks), sum(of, ranks));
      means.insert(sum(of, ranks));
    }
    EXPECT_GT(means.size(), 50U) << "elements that were swapped must show";
    EXPECT_TRUE(first_micro_batch_counts);
  }
}

TEST(ProofIntegers, WhatIsWrittenIsThatOfEachElement) {
  const Range range = {65'500, 65'701};  // across two keys, and with a tail
  std::vector<float> written(range.size());
  const auto expect = [&](const ProofIntegers& integers, int rank, int micro_batch,
                          const auto& of_element) {
    integers.write(range, rank, micro_batch, written.data());
    for (std::int64_t i = 0; i < range.size(); ++i) {
      ASSERT_EQ(written[i], of_element(integers.contributions(range.begin + i)))
          << "element " << range.begin + i;
    }
  };
  for (const at::ScalarType dtype : kDtypes) {
    for (const int ranks : {1, 2, 3, 5, 16, 17, 1000, 4096}) {
      for (const int micro_batches : {1, 2}) {
        const ProofIntegers integers(ranks, micro_batches, dtype, 13);
        expect(integers, kEach, kEach, [&](const auto& of) { return sum(of, ranks); });
        for (const int rank : {0, ranks / 2, ranks - 1}) {
          for (const int micro_batch : {kEach, micro_batches - 1}) {
            expect(integers, rank, micro_batch,
                   [&](const auto& of) { return sum(of, ranks, rank, micro_batch); });
          }
        }
        expect(integers.silent(), kEach, kEach, [](const auto&) { return 0.0F; });
      }
    }
  }
}

TEST(ProofIntegers, AnotherRoundHasOtherIntegers) {
  const ProofIntegers one(4, 1, at::kFloat, 1);
  const ProofIntegers two(4, 1, at::kFloat, 2);
  int equal = 0;
  for (std::int64_t element = 0; element < 1000; ++element) {
    if (sum(one.contributions(element), 4) == sum(two.contributions(element), 4)) ++equal;
  }
  EXPECT_LT(equal, 50);
}

}  // namespace
}  // namespace ddprun
