// Ranks that read the wrong samples of a step are told.
#include "ddprun/experiments/training/data_proof.h"

#include <functional>

#include "support/matchers.h"
#include "support/thread_ranks.h"

namespace ddprun::data_proof_test {
namespace {

constexpr std::int64_t kStep = 3;

/// Of two ranks that read four samples each, `read` by each.
Check check_of(
    const std::function<std::vector<Batch>(const DataSource& data, std::int64_t rank)>& read) {
  DataConfig config;
  config.source = DataKind::random;
  const auto data = open_data(config, /*vocab_size=*/64, /*context_length=*/16, /*seed=*/1,
                              /*global_batch=*/8);
  std::vector<Check> checks(2);
  test::run_ranks(2, [&](ProcessGroup& group) {
    checks[group.rank()] = check_samples_read(*data, kStep, read(*data, group.rank()), group);
  });
  EXPECT_EQ(checks[0], checks[1]);
  return checks[0];
}

TEST(SamplesRead, WhoReadsWhichMakesNoDifference) {
  const Check check = check_of([](const DataSource& data, std::int64_t rank) {
    return std::vector{data.batch(kStep, 4 * rank, 2), data.batch(kStep, 4 * rank + 2, 2)};
  });
  EXPECT_EQ(check.status, CheckStatus::passed);
  EXPECT_EQ(check.detail, "each of the step's 8 samples by one rank, once");
  const Check in_turn = check_of([](const DataSource& data, std::int64_t rank) {
    std::vector<Batch> read;
    for (std::int64_t sample = rank; sample < 8; sample += 2) {
      read.push_back(data.batch(kStep, sample, 1));
    }
    return read;
  });
  EXPECT_EQ(in_turn.status, CheckStatus::passed);
}

TEST(SamplesRead, CatchRanksThatReadTheSame) {
  const Check check = check_of(
      [](const DataSource& data, std::int64_t) { return std::vector{data.batch(kStep, 0, 4)}; });
  EXPECT_EQ(check.status, CheckStatus::failed);
  EXPECT_EQ(check.detail, "sample 0 of the step's 8 was read by the ranks 2 times, and 1 is right");
}

TEST(SamplesRead, CatchThoseOfAnotherStep) {
  const Check check = check_of([](const DataSource& data, std::int64_t rank) {
    return std::vector{data.batch(kStep - 1, 4 * rank, 4)};
  });
  EXPECT_EQ(check.status, CheckStatus::failed);
  EXPECT_THAT(check.detail, HasSubstr("was read by the ranks 0 times"));
}

TEST(SamplesRead, CatchOneOtherToken) {
  const Check check = check_of([](const DataSource& data, std::int64_t rank) {
    Batch batch = data.batch(kStep, 4 * rank, 4);
    if (rank == 1) batch.targets[2][15] = (batch.targets[2][15].item<std::int64_t>() + 1) % 64;
    return std::vector{batch};
  });
  EXPECT_THAT(check.detail, HasSubstr("sample 6 of the step's 8 was read by the ranks 0 times"));
}

}  // namespace
}  // namespace ddprun::data_proof_test
