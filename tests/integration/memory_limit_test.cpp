// A limit of memory that leaves room for nothing, or for no thread: memory is what is said to have
// run out, whoever finds it.
#include "support/ddprun_command.h"
#include "support/sanitizers.h"

namespace ddprun::test {
namespace {

TEST(MemoryLimit, HoweverLowNoRowFailsInOtherWords) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator ends the process";
  TemporaryFolder folder(
      "low.yaml", tiny_experiment("sweep:\n"
                                  "  world.backend: [shm, gloo]\n"
                                  "  world.memory_limit_gb: [0.0001, 0.003, 0.01, 0.015, 0.02]\n"));
  // The limit is what was asked about: no failure.
  must_run(folder, {"low.yaml", "--set", "model.d_model=512", "--set", "model.d_ff=4096"});
  for (const json& row : rows_of(folder, "low")) {
    EXPECT_EQ(row["status"], "out of memory") << row["label"] << ": " << row["reason"];
  }
}

TEST(MemoryLimit, ARowThatMeetsItStandsBesideOneThatRan) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator ends the process";
  TemporaryFolder folder("two.yaml",
                         tiny_experiment("sweep: {world.memory_limit_gb: [0.01, 0]}\n"));
  EXPECT_THAT(
      must_run(folder, {"two.yaml", "--set", "model.d_model=512", "--set", "model.d_ff=4096"}).out,
      ContainsRegex("world.memory_limit_gb=0.01 is out of memory \\(0.[0-9]+ GB a rank by "
                    "the account\\): of the same tokens a step world.memory_limit_gb=0 .* "
                    "ran"));
}

}  // namespace
}  // namespace ddprun::test
