// The kind of experiment `precision`, and steps that end early, as a user meets them.
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

TEST(PrecisionStudy, FourSumsAreATableWithASentenceEach) {
  TemporaryFolder folder("sums.yaml",
                         "experiment: precision\n"
                         "demonstration: {name: accumulation}\n"
                         "sweep:\n"
                         "  demonstration.sum: [float32, float16, float16_to_float32, "
                         "converted_float16_to_float32]\n");
  EXPECT_THAT(must_run(folder, {"sums.yaml"}).out,
              AllOf(HasSubstr("proved in 4 of 4 rows: the sum that of scalar arithmetic"),
                    HasSubstr("float16 added in float16, 1000 times 0.01: 9.953125"),
                    HasSubstr("float32 added in float32, 1000 times 0.01: 10.00013"),
                    HasSubstr("mostly from rounding the sums"),
                    HasSubstr("mostly from rounding the addend"), Not(HasSubstr("speed-up"))));
  const std::string table = read_file(only_result(folder, "sums") / "summary.md");
  EXPECT_THAT(table, AllOf(HasSubstr("| 9.9531250 | 10 | -4.69e-02 | +2.14e-03 | -4.90e-02 |"),
                           HasSubstr("| 10.0021362 | 10 |"), Not(HasSubstr("| autocast |")),
                           Not(HasSubstr("machine GFLOP/s"))))
      << "nothing was timed";
  const json result = result_of(folder, "sums");
  ASSERT_EQ(result["findings"].size(), 4u);
  EXPECT_EQ(result["findings"][1]["sum"], 9.953125);
  EXPECT_EQ(result["rows"][1]["kind"], "precision");
}

TEST(PrecisionStudy, DtypesOfBothCastsAreATable) {
  TemporaryFolder folder("dtypes.yaml",
                         "experiment: precision\n"
                         "demonstration: {name: dtypes}\n"
                         "sweep: {demonstration.autocast: [float16, bfloat16]}\n");
  const CommandResult run = must_run(folder, {"dtypes.yaml"});
  EXPECT_THAT(run.out, HasSubstr("autocast (cpu, float16): parameters, loss, gradients are "
                                 "float32; fc1, ReLU, layer norm, logits are float16"));
  const std::string table = read_file(only_result(folder, "dtypes") / "summary.md");
  EXPECT_THAT(table, AllOf(HasSubstr("| autocast | parameters | fc1 | ReLU | layer norm | logits | "
                                     "loss | gradients |"),
                           HasSubstr("float16 (by CUDA's list float32: not measured here)"),
                           Not(HasSubstr("| sum |"))));
  const json rank = rows_of(folder, "dtypes")[1]["ranks"][0];
  EXPECT_EQ(rank["observed"][4], json({"logits", "bfloat16"}));
  EXPECT_THAT(must_run(folder, {"dtypes.yaml", "--resume"}).err, HasSubstr("taken over"));
}

json memory_of(const json& row, const std::string& phase) {
  return element_of(row["ranks"][0]["memory_phases"], "phase", phase);
}

TEST(Bf16Pure, HasHalfOfFp32sBytesAParameter) {
  TemporaryFolder folder("bytes.yaml",
                         tiny_experiment("sweep: {precision: [fp32, bf16_true, bf16_pure, "
                                         "{name: bf16_pure, moments_dtype: float32}]}\n"));
  const CommandResult run =
      must_run(folder, {"bytes.yaml", "--set", "world.size=1", "--set", "model.kernels=reference"});
  EXPECT_THAT(run.out, HasSubstr("proved in 4 of 4 rows"));
  const json rows = rows_of(folder, "bytes");
  const auto bytes = [&](int row) {
    return memory_of(rows[row], "optimizer")["allocated_bytes"].get<double>();
  };
  EXPECT_NEAR(bytes(1) / bytes(0), 1.0, 0.05) << "masters";
  EXPECT_NEAR(bytes(2) / bytes(0), 0.5, 0.05);
  EXPECT_NEAR(bytes(3) / bytes(0), 0.75, 0.05);
  EXPECT_THAT(refusal_of(folder, {"bytes.yaml", "--set", "world.size=1", "--set",
                                  "optimizer={name: sgd}", "--set", "model.kernels=reference"}),
              HasSubstr("moments_dtype has no effect"));
}

TEST(LostUpdates, AreThoseOfWeightsWithoutMasters) {
  TemporaryFolder folder("lost.yaml",
                         tiny_experiment("sweep: {precision: [fp32, bf16_mixed, bf16_true, "
                                         "bf16_pure], strategy: [flat, zero2]}\n",
                                         6));
  const CommandResult run = must_run(
      folder, {"lost.yaml", "--set", "model.kernels=reference", "--set", "optimizer.lr=1e-4"});
  for (const json& row : rows_of(folder, "lost")) {
    const std::string name = row["label"];
    const json& share = row["statistics"]["lost_updates"]["last"];
    ASSERT_TRUE(share.is_number()) << name << row["statistics"]["lost_updates"];
    if (name.find("bf16_pure") == std::string::npos) {
      EXPECT_LT(share, 1.0) << name;
      continue;
    }
    EXPECT_GT(share, 5.0) << name;
    json norm = element_of(row["ranks"][0].at("lost_updates"), "parameter", "ln_final.weight");
    EXPECT_EQ(norm["weights"], 32) << name;
    EXPECT_EQ(norm["looked_at"], 32) << name;
    EXPECT_EQ(norm["lost"], 32) << name;
    EXPECT_EQ(norm["steps"], 4) << name;
    EXPECT_EQ(norm["steps_without_effect"], 4) << name;
  }
  EXPECT_THAT(run.out,
              ContainsRegex("bf16_pure[^\n]*: all 32 weights of ln_final.weight, and those of "
                            "2 more tensors, were left unchanged by rounding in each of 4 "
                            "looked-at steps"));
  EXPECT_THAT(run.out, Not(ContainsRegex("(fp32|bf16_mixed|bf16_true)[^\n]*: all [0-9]+ weights")));
}

TEST(LostUpdates, AreCountedFromAResumedStepOn) {
  TemporaryFolder folder("go.yaml", tiny_experiment("", 4));
  const Words common = with_sets({"go.yaml"}, {"model.kernels=reference", "precision=bf16_pure",
                                               "train.checkpoint={every: 4, path: saved}"});
  must_run(folder, common);
  auto resumed = with_sets(common, {"train.steps=8", "train.resume_from=latest"});
  resumed.insert(resumed.end(), {"--output", "again"});
  EXPECT_THAT(must_run(folder, resumed).out, HasSubstr("left unchanged by rounding in each of "));
}

TEST(StepExtent, EachPartTakesWhatItNeeds) {
  TemporaryFolder folder(
      "parts.yaml", tiny_experiment("sweep: {train.measure: [forward, forward_backward, step]}\n"));
  const CommandResult run = must_run(folder, {"parts.yaml", "--set", "world.size=1"});
  EXPECT_THAT(run.out, HasSubstr("parameters as they were at the start"));
  const json rows = rows_of(folder, "parts");
  ASSERT_EQ(rows.size(), 3u);
  std::vector<double> setup;
  for (const json& row : rows) {
    setup.push_back(memory_of(row, "setup")["allocated_bytes"].get<double>());
  }
  EXPECT_NEAR(setup[0] / setup[1], 0.5, 0.1) << "no gradients";
  EXPECT_TRUE(memory_of(rows[0], "backward").empty());
  EXPECT_FALSE(memory_of(rows[1], "backward").empty());
  EXPECT_TRUE(memory_of(rows[1], "optimizer").empty());
  EXPECT_GT(memory_of(rows[2], "optimizer")["allocated_bytes"].get<double>(), 1.5 * setup[2])
      << "with moments";
  EXPECT_EQ(rows[0]["statistics"]["backward_ms"]["count"], 0);
  EXPECT_NEAR(rows[0]["work"]["flops"].get<double>() * 3, rows[2]["work"]["flops"].get<double>(),
              1.0);
  must_run(folder, {"verify", "parts.yaml", "--set", "world.size=1"});
}

}  // namespace
}  // namespace ddprun::test
