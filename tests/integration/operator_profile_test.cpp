// profile.operators as a user meets it: times that sum to the step's, FLOPs of the formula.
#include <cmath>
#include <map>

#include "ddprun/base/text.h"
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

constexpr const char* kOperators = "profile: {operators: true}\n";

/// The lines of a table of commas, by the names of its columns.
std::vector<std::map<std::string, std::string>> read_csv(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  const std::vector<std::string> names = split_at(lines.at(0), ',');
  std::vector<std::map<std::string, std::string>> out(lines.size() - 1);
  for (std::size_t row = 0; row < out.size(); ++row) {
    const std::vector<std::string> values = split_at(lines[row + 1], ',');
    for (std::size_t i = 0; i < names.size(); ++i) out[row][names[i]] = values.at(i);
  }
  return out;
}

struct RecordedRun {
  json rank;  ///< 0
  json work;
  std::vector<std::map<std::string, std::string>> csv;
  std::string summary;
};

/// One rank, two layers, three warm-up steps; `settings` for --set. `again`: not what ran before.
const RecordedRun& run(const Words& settings, bool again = false) {
  static std::map<Words, RecordedRun> known;
  if (const auto found = known.find(settings); found != known.end() && !again) {
    return found->second;
  }
  const TemporaryFolder folder("run.yaml", tiny_experiment(kOperators));
  const Words small = {"train.warmup_steps=3", "world.size=1", "model.layers=2"};
  must_run(folder, with_sets(with_sets({"run.yaml"}, settings), small));
  const json row = rows_of(folder, "run")[0];
  const auto files = only_result(folder, "run");
  return known[settings] = {row["ranks"][0], row["work"],
                            read_csv(read_file(files / "profile/01/operators.csv")),
                            read_file(files / "summary.md")};
}

/// FLOPs of the rows whose column has that value; of all rows without a column.
double flops(const RecordedRun& run, const std::string& kind, const std::string& part = {}) {
  double sum = 0;
  for (const auto& row : run.csv) {
    if (row.at("kind") != kind || (!part.empty() && row.at("part") != part)) continue;
    sum += std::stod(row.at("flops"));
  }
  return sum;
}

// The model's: sequences of 16 tokens in two heads of 16, two of them a step.
constexpr double kTokens = 32, kWidth = 32, kContext = 16, kLayers = 2;
/// Of one block's matrices, and of one product of the size of all scores.
constexpr double kBlock = 2 * kTokens * (4 * kWidth * kWidth + 3 * kWidth * 64);
constexpr double kScores = 2 * kTokens * kContext * kWidth;

TEST(OperatorProfile, HasTheFormulasFlops) {
  const RecordedRun& fused = run({"attention=flash"});
  const double formula = fused.work["flops"].get<double>();
  EXPECT_DOUBLE_EQ(flops(fused, "matrix products") + flops(fused, "attention kernel"),
                   formula + kLayers * kScores / 2)
      << "flash computes the scores again";
  EXPECT_DOUBLE_EQ(flops(fused, "attention kernel"), kLayers * 7 * kScores / 2);

  // Eager computes the half of the scores that a causal model does not need.
  const RecordedRun& reference = run({"model.kernels=reference"});
  EXPECT_DOUBLE_EQ(flops(reference, "matrix products"), formula + kLayers * 6 * kScores / 2);
  EXPECT_DOUBLE_EQ(flops(reference, "matrix products", "attention scores"), kLayers * 3 * kScores);
  EXPECT_DOUBLE_EQ(flops(reference, "matrix products", "final product"), kLayers * 3 * kScores);

  const RecordedRun& forward = run({"model.kernels=reference", "train.measure=forward"});
  EXPECT_DOUBLE_EQ(flops(forward, "matrix products"), formula / 3 + kLayers * 2 * kScores / 2);
}

TEST(OperatorProfile, AddsWhatIsComputedAgain) {
  for (const char* kernels : {"fused", "reference"}) {
    SCOPED_TRACE(kernels);
    const Words settings = {std::string("model.kernels=") + kernels};
    Words recomputed = settings;
    recomputed.emplace_back("model.recompute=every_block");
    const double once = flops(run(settings), "matrix products");
    EXPECT_DOUBLE_EQ(flops(run(recomputed), "matrix products"),
                     once + kLayers * (kBlock + 2 * kScores));
  }
}

TEST(OperatorProfile, TimesSumToTheStep) {
  constexpr int kRuns = 10;  // in one of them the machine did nothing else at the step's two ends
  bool agrees = false;
  for (int i = 0; i < kRuns && !agrees; ++i) {
    const RecordedRun& fused = run({"model.kernels=fused"}, /*again=*/i > 0);
    const double table_ms = fused.rank["operators"]["step_ns"].get<double>() * 1e-6;
    double sum_ms = 0, share = 0;
    for (const auto& row : fused.csv) {
      sum_ms += std::stod(row.at("ms"));
      share += std::stod(row.at("share"));
    }
    EXPECT_NEAR(sum_ms, table_ms, 1e-3) << "but for rounding";
    EXPECT_NEAR(share, 1, 1e-3);
    const double step_ms = fused.rank["samples"]["step_ms"][2].get<double>();
    agrees = std::abs(sum_ms - step_ms) < 0.03 * step_ms;
  }
  EXPECT_TRUE(agrees);
}

TEST(OperatorProfile, HasCallsPartsAndSums) {
  const RecordedRun& reference = run({"model.kernels=reference"});
  std::map<std::string, int> forward;
  std::map<std::string, double> ms;
  for (const auto& row : reference.csv) {
    if (row.at("phase") == "forward") forward[row.at("operator")] += std::stoi(row.at("calls"));
    ms[row.at("kind")] += std::stod(row.at("ms"));
  }
  EXPECT_EQ(forward["aten::softmax"], kLayers);
  EXPECT_EQ(forward["aten::bmm"], 2 * kLayers);
  for (const char* kind : {"matrix products", "softmax", "norm", "activation", "rope", "loss",
                           "elementwise", "optimizer", "between operators", "recording"}) {
    EXPECT_GT(ms[kind], 0) << kind;
  }
  EXPECT_THAT(reference.summary, HasSubstr("## Operators"));
  EXPECT_THAT(reference.summary, HasSubstr(": in forward "));
  const RecordedRun& fused = run({"attention=flash"});
  std::map<std::string, int> calls;
  for (const auto& row : fused.csv) calls[row.at("operator")] += std::stoi(row.at("calls"));
  EXPECT_EQ(calls["ddprun::flash_attention"], kLayers);
  EXPECT_EQ(calls["ddprun::flash_attention_backward"], kLayers);
  EXPECT_EQ(calls["ddprun::rms_norm"], 2 * kLayers + 1);
  EXPECT_EQ(calls["ddprun::swiglu"], kLayers);
  EXPECT_GT(calls["ddprun::update"], 0);
}

}  // namespace
}  // namespace ddprun::test
