// The course's arithmetic against values that were worked out by hand, and what is said of them.
#include "ddprun/experiments/arithmetic/mesh.h"

#include "ddprun/experiments/arithmetic/arithmetic_kind.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/run_statistics.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

/// CS336 (2025), assignment 2: XXL on TPU v5p.
const LinearStack kXxl = {.d_model = 16384, .d_ff = 53248, .layers = 126, .matrices = 2};
const Mesh kMesh = {.data = 16, .tensor = 4, .data_links = 2, .tensor_links = 1};
const Machine kBook = {
    .flops = 4.6e14, .link = {.bytes_per_s = 1.8e11}, .element_bytes = 2, .asymptotic = true};
constexpr double kMemory = 95e9;

TEST(Arithmetic, OfTheCoursesModelIsThatByHand) {
  EXPECT_EQ(kXxl.parameters(), 219'848'638'464);
  EXPECT_EQ(state_bytes(kXxl), 3'517'578'215'424);
  EXPECT_EQ(2 * kXxl.activations(4096), 71'873'593'344);
}

TEST(Arithmetic, FewestRanksFitAndOneFewerDoesNot) {
  const double state = state_bytes(kXxl), saved = 2 * kXxl.activations(4096);
  EXPECT_EQ(fewest_ranks(state, saved, 0.5, kMemory), 61);
  EXPECT_LT(sharded_bytes(state, saved, 0.5, 61), kMemory);
  EXPECT_GE(sharded_bytes(state, saved, 0.5, 60), kMemory);
  EXPECT_EQ(fewest_ranks(state, 4 * saved, 0.5, kMemory), 0) << "half of them alone is more";
  EXPECT_EQ(fewest_ranks(1, 1, 1, kMemory), 1);
}

TEST(Arithmetic, LeastBatchIsThatByHand) {
  EXPECT_EQ(least_tokens_a_rank(kXxl, kMesh, kBook), 320);  // 4.6e14 / 1.8e11 / 2 / 4 = 319.4
  EXPECT_EQ(least_tokens_by_formula(kXxl, kMesh, kBook), 320);
  EXPECT_NEAR(least_tokens_of_any_mesh(kXxl, kMesh, kBook), 61.33, 0.01);
  Machine exact = kBook;
  exact.asymptotic = false;
  EXPECT_EQ(least_tokens_a_rank(kXxl, kMesh, exact), 300);  // 319.4 x 15 / 16 = 299.5
}

TEST(Arithmetic, SearchAndFormulaAgreeOnEveryMesh) {
  for (const double data : {1, 2, 16, 512}) {
    for (const double tensor : {1, 4, 20, 21, 64}) {
      const Mesh mesh = {.data = data, .tensor = tensor, .data_links = 2};
      EXPECT_NEAR(least_tokens_a_rank(kXxl, mesh, kBook),
                  least_tokens_by_formula(kXxl, mesh, kBook), 1)
          << data << " x " << tensor;
    }
  }
  EXPECT_GT(least_tokens_by_formula(kXxl, {.data = 2, .tensor = 20}, kBook), 0);  // 20.8 at most
  EXPECT_EQ(least_tokens_by_formula(kXxl, {.data = 2, .tensor = 21}, kBook), 0);
}

TEST(Arithmetic, MostRanksOfABatchAreTheFirstThatStillCompute) {
  const double most = most_data_ranks(kXxl, kMesh, kBook, 20'480);
  EXPECT_EQ(most, 16);  // 20,480 / 1,277.8 = 16.03
  EXPECT_EQ(most_data_ranks(kXxl, kMesh, kBook, 20'440), 15);
}

TEST(Arithmetic, TimesAreThoseByHand) {
  const ForwardTimes times = forward_times(kXxl, kMesh, kBook, 20'480);
  EXPECT_NEAR(times.compute, 2 * 219.848638464e9 * 20480 / 64 / 4.6e14, 1e-12);
  EXPECT_NEAR(times.data, 126 * 2 * 2 * 16384.0 * 53248 / 4 / 3.6e11, 1e-12);
  EXPECT_NEAR(times.tensor, 126 * 2 * 2 * (20480.0 / 16) * 16384 / 1.8e11, 1e-12);
  EXPECT_EQ(times.overlapped(), times.compute);
  EXPECT_EQ(times.in_turn(), times.compute + times.data + times.tensor);
}

std::string sentence_of(double compute_ms, double data_ms, double tensor_ms) {
  const ArithmeticKind& q = arithmetic();
  Run run;
  run.kind = &q;
  Sample& sample = run.ranks.emplace_back().samples.emplace_back(q);
  sample[q.compute_ms] = compute_ms;
  sample[q.data_ms] = data_ms;
  sample[q.tensor_ms] = tensor_ms;
  sample[q.least_tokens] = 300;
  sample[q.least_batch] = 19'200;
  const RunStatistics statistics(run, "a row");
  return q.findings({&statistics}).at(0).text;
}

TEST(Arithmetic, TheSentenceNamesTheLongestOfTheThree) {
  EXPECT_EQ(sentence_of(3, 2, 1),
            "on paper, a row: bound by computing; 300 tokens a rank, 19200 in all, keep it "
            "computing");
  EXPECT_THAT(sentence_of(2, 3, 1), HasSubstr("bound by FSDP's communication"));
  EXPECT_THAT(sentence_of(2, 1, 3), HasSubstr("bound by TP's communication"));
  EXPECT_THAT(sentence_of(3, 3, 3), HasSubstr("bound by computing"));
}

}  // namespace
}  // namespace ddprun
