// data.document_end from outside: the same losses however the samples are spread, and what it
// refuses.
#include "support/ddprun_command.h"

namespace ddprun::documents_test {
namespace {

using namespace test;

class RunOfDocuments : public testing::Test {
 protected:
  /// Lines of 1 to 40 letters: of the samples of a step some have twice the targets of others.
  RunOfDocuments() {
    std::string text;
    for (int line = 0; line < 400; ++line) {
      for (int i = line * line % 40; i >= 0; --i) {
        text += static_cast<char>('a' + (line * 7 + i * i) % 26);
      }
      text += "\n";
    }
    folder_.write("text.txt", text);
    folder_.write("e.yaml", tiny_experiment("", 6));
  }
  CommandResult run(const Words& more, const std::string& command = "run", int status = 0) {
    return must_end(status, folder_, with_sets({command, "e.yaml", "--set", kData}, more));
  }
  /// The mean over ranks of each step's loss.
  std::vector<double> losses(const Words& more) {
    EXPECT_THAT(run(more).out, HasSubstr("proved"));
    const json ranks = rows_of(folder_, "e")[0]["ranks"];
    std::vector<double> out;
    for (const json& rank : ranks) {
      const json& own = rank["samples"]["loss"];
      out.resize(own.size());
      for (std::size_t i = 0; i < own.size(); ++i) {
        out[i] += own[i].get<double>() / static_cast<double>(ranks.size());
      }
    }
    std::filesystem::remove_all(folder_.path() / "results");
    return out;
  }

  const std::string kData = "data={source: text, path: text.txt, document_end: 10}";
  TemporaryFolder folder_;
};

TEST_F(RunOfDocuments, LearnsTheSameHoweverSamplesAreSpread) {
  const Words batch = {"train={global_batch: 4, warmup_steps: 1, steps: 6}"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), batch.begin(), batch.end());
    return losses(more);
  };
  const std::vector<double> expected = with({"world.size=1"});
  ASSERT_EQ(expected.size(), 7U);
  for (const auto& spread : std::vector<Words>{
           {"world.size=4"},
           {"train.accumulate=2", "strategy=fsdp"},
           {"attention=flash", "strategy=overlap"},
           {"attention=sdpa", "model.kernels=reference", "model.recompute=every_block"},
           {"world.size=1", "train.accumulate=4"}}) {
    EXPECT_THAT(with(spread), testing::Pointwise(testing::DoubleNear(2e-4), expected))
        << testing::PrintToString(spread);
  }
}

TEST_F(RunOfDocuments, IsAsInOneProcess) { run({"attention=flash"}, "verify"); }

TEST_F(RunOfDocuments, RefusesWhatCannotTellThemApart) {
  const std::string random = "data={source: random, document_end: 10}";
  EXPECT_THAT(run_ddprun(folder_, {"validate", "e.yaml", "--set", random}).err,
              HasSubstr("data.document_end"));
  EXPECT_THAT(run({"data.document_end=256"}, "validate", 2).err,
              HasSubstr("no document can end with a token that there is not"));
  EXPECT_THAT(
      refusal_of(folder_, {"validate", "e.yaml", "--set", kData, "--set", "attention=planted",
                           "--plugin-path", DDPRUN_BUILD_DIR "/tests/plugins/planted"}),
      AllOf(HasSubstr("the attention does not keep documents apart"),
            HasSubstr("; it could run with attention eager, flash or sdpa\n")));
}

}  // namespace
}  // namespace ddprun::documents_test
