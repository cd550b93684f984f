// Every way to multiply bfloat16 matrices, as DDPRUN_PRODUCTS forces it in a whole run.
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

TEST(Products, AreChosenByTheEnvironment) {
  TemporaryFolder folder("e.yaml", tiny_experiment("", 2));
  EXPECT_THAT(refusal_of(folder, {"e.yaml"}, {"/usr/bin/env", "DDPRUN_PRODUCTS=fast"}),
              AllOf(HasSubstr("DDPRUN_PRODUCTS names no way to multiply"),
                    HasSubstr("fast: no such path"), HasSubstr("avx512_bf16")));
}

/// A path by its name.
class ForcedProducts : public testing::TestWithParam<const char*> {
 protected:
  /// Trains in bfloat16, attention too, with widths that are no multiple of any tile.
  CommandResult train(const std::string& path) const {
    return run_ddprun(
        folder_,
        {"e.yaml", "--set", "name=" + path, "--set", "precision=bf16_mixed", "--set",
         "attention=flash", "--set", "model.d_ff=90", "--set", "model.vocab_size=301"},
        {"/usr/bin/env", "DDPRUN_PRODUCTS=" + path});
  }

  TemporaryFolder folder_;
};

TEST_P(ForcedProducts, TrainAsFloat32DoesAndStandInTheResult) {
  const std::string path = GetParam();
  folder_.write("e.yaml", tiny_experiment("", 8));
  const CommandResult run = train(path);
  if (run.status == 2) {
    EXPECT_THAT(run.err, HasSubstr(path + ": this CPU has no such instructions"));
    GTEST_SKIP() << "this CPU has no instructions for the path " << path;
  }
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("✓ proved"));
  const json result = result_of(folder_, path);
  EXPECT_EQ(result["environment"]["products"], path);
  if (path == "library") {  // that of float32 matrices too
    EXPECT_EQ(result["environment"]["float32 products"], path);
  }
  for (const json& rank : result["rows"][0]["ranks"]) EXPECT_EQ(rank["products"], path);

  ASSERT_EQ(path == "float32" ? 0 : train("float32").status, 0);
  const json wide = rows_of(folder_, "float32")[0]["ranks"][0]["samples"]["loss"];
  const json losses = result["rows"][0]["ranks"][0]["samples"]["loss"];
  ASSERT_EQ(losses.size(), wide.size());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step].get<double>(), wide[step].get<double>(), 0.005);
  }
}

INSTANTIATE_TEST_SUITE_P(Path, ForcedProducts,
                         testing::Values("amx", "avx512_bf16", "float32", "library"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Products, ThatAreWidenedSayThatBfloat16GainsNoTime) {
  TemporaryFolder folder("e.yaml", tiny_experiment("", 2));
  const CommandResult run = must_run(folder, {"e.yaml", "--set", "precision=bf16_mixed"},
                                     {"/usr/bin/env", "DDPRUN_PRODUCTS=float32"});
  EXPECT_THAT(run.out, HasSubstr("products of bfloat16 run as float32 on this CPU"));
}

}  // namespace
}  // namespace ddprun::test
