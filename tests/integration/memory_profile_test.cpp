// profile.memory as a user meets it: files whose figures add up. As profile.operators it takes no
// step that is measured.
#include <algorithm>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

constexpr const char* kMemory = "profile: {memory: true}\n";

/// The result of a run with two warm-up steps; its files lie in `folder`.
json run(const TemporaryFolder& folder, const std::string& more, Words arguments = {}) {
  folder.write("run.yaml", tiny_experiment(more));
  arguments.insert(arguments.begin(), {"run.yaml", "--set", "train.warmup_steps=2"});
  must_run(folder, arguments);
  return result_of(folder, "run");
}

TEST(MemoryProfile, AddsUpToTheAllocatorsPeakAndToWhatIsResident) {
  for (const char* kernels : {"fused", "reference"}) {
    SCOPED_TRACE(kernels);
    const TemporaryFolder folder;
    const json result = run(folder, kMemory, {"--set", std::string("model.kernels=") + kernels});
    const json& rank = result["rows"][0]["ranks"][0];
    const json& peak = rank["memory_peak"];
    std::int64_t allocators = 0;
    for (const json& phase : rank["memory_phases"]) {
      if (phase["phase"] == "setup") continue;
      allocators = std::max(allocators, phase["peak_allocated_bytes"].get<std::int64_t>());
    }
    EXPECT_EQ(sum_of(peak["tensors"]), allocators);
    const auto resident = peak["resident_bytes"].get<std::int64_t>();
    const auto unexplained = peak["unexplained_bytes"].get<std::int64_t>();
    EXPECT_EQ(sum_of(peak["categories"]) + unexplained, resident);
    EXPECT_LT(std::abs(unexplained), std::max<std::int64_t>(10'000'000, resident / 40));
    EXPECT_FALSE(result["rows"][0]["ranks"][1].contains("memory_peak")) << "rank 0 alone";

    const auto files = only_result(folder, "run") / "profile/01";
    const json memory = json::parse(read_file(files / "memory.json"));
    std::int64_t now = 0, most = 0;
    for (const json& block : memory["blocks"]) {
      if (block["born_ns"].is_null()) now += block["bytes"].get<std::int64_t>();
    }
    for (const json& event : memory["events"]) {
      now += event[2].get<std::int64_t>();
      most = std::max(most, now);
    }
    EXPECT_EQ(most, allocators);
    for (const json& moment : memory["moments"]) {
      std::int64_t all = moment["unexplained"].get<std::int64_t>();
      for (const auto& [name, bytes] : moment["process"].items()) all += bytes.get<std::int64_t>();
      EXPECT_EQ(all, moment["resident"]) << moment["moment"];
    }
    EXPECT_THAT(read_file(files / "memory.csv"), HasSubstr("\nsaved for backward,"));
    EXPECT_THAT(read_file(files / "allocations.csv"), HasSubstr(",layers.0,w1w3"));
    EXPECT_THAT(read_file(files / "memory.svg"), HasSubstr("saved for backward"));
    const json timeline = json::parse(read_file(files / "memory_timeline.json"));
    EXPECT_TRUE(std::any_of(timeline["traceEvents"].begin(), timeline["traceEvents"].end(),
                            [](const json& each) { return each["ph"] == "C"; }));
    EXPECT_THAT(read_file(only_result(folder, "run") / "summary.md"),
                HasSubstr("the first block saves"));
  }
}

TEST(MemoryProfile, FindsWhatTheFormulaSaysABlockSaves) {
  constexpr std::int64_t kRows = 2 * 16, kWidth = 32, kInner = 64, kHeads = 2;
  constexpr std::int64_t kBlock =
      kRows * (8 * kWidth + 6 * 4 * kWidth + 2 * 4 * kInner + 8) + 4 * kRows * kHeads;
  constexpr std::int64_t kStream = 4 * kRows * kWidth;
  const auto saved = [&](const char* recompute) {
    const TemporaryFolder folder;
    const json result = run(folder, kMemory,
                            {"--set", "attention=flash", "--set", "model.layers=2", "--set",
                             std::string("model.recompute=") + recompute});
    const json& peak = result["rows"][0]["ranks"][0]["memory_peak"];
    EXPECT_EQ(peak["tokens"], kRows);
    return std::pair(sum_of(peak["saved"]), sum_of(peak["saved_again"]));
  };
  EXPECT_EQ(saved("none"), std::pair(kBlock, std::int64_t{0}));
  EXPECT_EQ(saved("every_block"), std::pair(kStream, kBlock)) << "all but its output is gone";
}

TEST(Profile, TakesNoMeasuredStepAndIsOffUnlessAskedFor) {
  const TemporaryFolder without;
  const json plain = run(without, "")["rows"][0]["ranks"];
  EXPECT_FALSE(std::filesystem::exists(only_result(without, "run") / "profile"));
  EXPECT_EQ(plain[0]["samples"]["warmup"].dump(), "[true,true,false,false,false]");
  for (const auto& [option, record] :
       {std::pair("memory", "memory_peak"), {"operators", "operators"}}) {
    SCOPED_TRACE(option);
    const TemporaryFolder with;
    const std::string profile = std::string("profile: {") + option + ": true}\n";
    const json ranks = run(with, profile)["rows"][0]["ranks"];
    EXPECT_TRUE(ranks[0].contains(record));
    EXPECT_FALSE(ranks[1].contains(record)) << "rank 0 alone";
    EXPECT_FALSE(plain[0].contains(record));
    for (const char* sample : {"warmup", "loss"}) {
      EXPECT_EQ(ranks[0]["samples"][sample], plain[0]["samples"][sample]);
    }
    EXPECT_EQ(ranks[0]["parameter_hash"], plain[0]["parameter_hash"]);
  }
}

}  // namespace
}  // namespace ddprun::test
