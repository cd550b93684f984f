// `ddprun account`, and predictions beside what runs took: bytes by phase, collectives, refusals.
#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include "ddprun/experiments/training/dry_step.h"
#include "support/ddprun_command.h"
#include "support/sanitizers.h"

namespace ddprun::test {
namespace {

/// Sizes of which no two make the same term.
const char* const kModel =
    "model: {preset: tiny, vocab_size: 1500, context_length: 48, d_model: 128, d_ff: 352, "
    "layers: 4, heads: 4}\n";

std::string experiment(const std::string& more) {
  return std::string(kModel) +
         "data: {source: random}\n"
         "world: {size: 2}\n"
         "strategy: flat\n"
         "precision: fp32\n"
         "attention: flash\n"
         "optimizer: {name: adamw, lr: 1e-3}\n"
         "train: {batch_per_rank: 2, warmup_steps: 3, steps: 1}\n" +
         more;
}

/// Peaks of a row's phases, the highest of its ranks.
std::map<std::string, double> measured_peaks(const json& row) {
  std::map<std::string, double> peaks;
  for (const json& rank : row["ranks"]) {
    for (const json& each : rank["memory_phases"]) {
      double& peak = peaks[each["phase"].get<std::string>()];
      peak = std::max(peak, each["peak_allocated_bytes"].get<double>());
    }
  }
  return peaks;
}

/// Runs the sweep, and holds each phase of each row to 2 % of its prediction.
void expect_predicted(const std::string& sweep, std::size_t rows) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator is not the one that is counted";
  TemporaryFolder folder("matrix.yaml", experiment("sweep:\n" + sweep));
  must_run(folder, {"matrix.yaml"});
  const json result = result_of(folder, "matrix");
  ASSERT_EQ(result["rows"].size(), rows);
  for (const json& row : result["rows"]) {
    SCOPED_TRACE(row["label"]);
    ASSERT_TRUE(row.contains("predicted"));
    EXPECT_EQ(row["predicted"]["unknown"], "");
    const auto measured = measured_peaks(row);
    for (const json& phase : row["predicted"]["phases"]) {
      if (phase["phase"] == "setup") continue;
      const double peak = measured.at(phase["phase"]);
      EXPECT_NEAR(phase["bytes"].get<double>(), peak, 0.02 * peak) << phase["phase"];
    }
    double count = 0;
    for (const json& each : row["predicted"]["collectives"]) count += each["count"].get<double>();
    EXPECT_EQ(count, row["ranks"][0]["timeline"].back()["collectives"].size());
  }
}

TEST(Account, OfEachStrategyIsWhatARunTakes) {
  expect_predicted(
      "  strategy: [{name: none, unsynchronized: true}, naive, overlap, {name: bucketed, "
      "bucket_mb: 1}, {name: torch_ddp, bucket_mb: 1}, zero1, zero1_cs336, zero2, fsdp, hsdp, "
      "powersgd, {name: local_sgd, every: 1}, gossip]\n",
      13);
}

TEST(Account, OfKernelsAndRecomputationIsWhatARunTakes) {
  expect_predicted(
      "  model.kernels: [fused, reference]\n"
      "  model.recompute: [none, every_block, {groups: 2}]\n"
      "  precision: [fp32, bf16_mixed]\n",
      12);
}

TEST(Account, OfKernelsAndRecomputationOnOneAndFourRanks) {
  expect_predicted(
      "  world.size: [1, 4]\n"
      "  model.kernels: [fused, reference]\n"
      "  model.recompute: [none, {groups: 2}]\n",
      8);
}

TEST(Account, OfStrategiesThatRecomputeOnFourRanks) {
  expect_predicted(
      "  world.size: [4]\n"
      "  model.kernels: [reference]\n"
      "  model.recompute: [{groups: 2}]\n"
      "  precision: [bf16_mixed]\n"
      "  strategy: [zero1, powersgd]\n",
      2);
}

TEST(Account, OfEachCategoryIsWhatARunTakes) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator is not the one that is counted";
  TemporaryFolder folder("categories.yaml", experiment("profile: {memory: true}\n"
                                                       "sweep:\n"
                                                       "  strategy: [flat, zero2, fsdp]\n"
                                                       "  model.kernels: [fused, reference]\n"
                                                       "  model.recompute: [none, every_block]\n"));
  const CommandResult run = must_run(folder, {"-v", "categories.yaml"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("tensors MB"), HasSubstr("predicted MB")));
  for (const json& row : rows_of(folder, "categories")) {
    SCOPED_TRACE(row["label"]);
    json peak = {{"bytes", 0}};
    for (const json& phase : row["predicted"]["phases"]) {
      if (phase["phase"] != "setup" && phase["bytes"] > peak["bytes"]) peak = phase;
    }
    for (const json& each : row["ranks"][0]["memory_peak"]["tensors"]) {
      const std::string category = each[0];
      EXPECT_NEAR(peak["by_category"][category].get<double>(), each[1].get<double>(),
                  0.01 * peak["bytes"].get<double>())
          << category;
    }
  }
}

TEST(Account, OfPrecisionsWithoutFusedKernelsIsWhatARunTakes) {
  expect_predicted(
      "  model.kernels: [reference]\n"
      "  attention: [eager]\n"
      "  precision: [bf16_pure, fp16_mixed]\n"
      "  strategy: [flat, fsdp]\n",
      4);
}

TEST(Account, RunsNothingAndTakesAnyNumberOfRanks) {
  TemporaryFolder folder("a.yaml", experiment("sweep: {strategy: [flat, fsdp]}\n"));
  const CommandResult run = must_run(folder, {"account", "a.yaml", "--ranks", "2,1024", "--memory",
                                              "20MB", "--link", "200GB/s,5us", "--format", "json"});
  const json lines = json::parse(run.out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2]["ranks"], 1024);
  EXPECT_EQ(lines[0]["fits"], lines[0]["left_bytes"].get<double>() >= 0);
  EXPECT_GT(lines[2]["communication_ms"].get<double>(), lines[0]["communication_ms"].get<double>());
  for (const json& line : lines) {
    EXPECT_NEAR(line["step_ms"].get<double>(),
                line["computing_ms"].get<double>() + line["exposed_ms"].get<double>(), 1e-9);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "results"));
  const CommandResult table = run_ddprun(folder, {"account", "a.yaml", "--hosts", "4x2"});
  EXPECT_THAT(table.out, AllOf(HasSubstr("peak MB"), HasSubstr("strategy=fsdp")));
  EXPECT_THAT(
      run_ddprun(folder, {"account", "a.yaml", "--format", "csv"}).out,
      AllOf(HasSubstr("label,ranks,phase,category,bytes\n"), HasSubstr("\nstrategy=fsdp,")));
  const CommandResult quoted =
      run_ddprun(folder, {"account", "a.yaml", "--format", "csv", "--set",
                          "sweep.strategy=[{name: bucketed, bucket_mb: 5}]", "--set",
                          "sweep.train.batch_per_rank=[2]"});
  EXPECT_THAT(quoted.out, HasSubstr("\n\"strategy="));
}

/// The shortest step of each row, in all that ran so far.
using Shortest = std::vector<double>;

void take_shorter(Shortest& steps, const json& rows) {
  steps.resize(rows.size(), std::numeric_limits<double>::max());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    steps[row] = std::min(steps[row], rows[row]["statistics"]["step_ms"]["min"].get<double>());
  }
}

struct Order {
  int pairs = 0;           ///< whose predicted steps differ by more than a factor: others are ties
  std::string wrong = {};  ///< of which the one predicted to be faster is not
};

Order order_of(const json& predicted, const Shortest& steps, double factor) {
  Order order;
  for (std::size_t slow = 0; slow < steps.size(); ++slow) {
    for (std::size_t fast = 0; fast < steps.size(); ++fast) {
      const double ratio =
          predicted[slow]["step_ms"].get<double>() / predicted[fast]["step_ms"].get<double>();
      if (ratio <= factor) continue;
      ++order.pairs;
      if (steps[slow] > steps[fast]) continue;
      std::ostringstream words;
      words << predicted[slow]["label"] << " takes " << steps[slow] << " ms, "
            << predicted[fast]["label"] << ' ' << steps[fast] << " ms, predicted " << ratio
            << " times as long\n";
      order.wrong += words.str();
    }
  }
  return order;
}

/// Another program may have a core for as long as a row runs. So what is out of order runs again.
Order measured_order(const json& predicted, double factor, const std::function<json()>& run) {
  Shortest steps;
  Order order;
  for (int attempt = 0; attempt < 6; ++attempt) {
    take_shorter(steps, run());
    order = order_of(predicted, steps, factor);
    if (order.wrong.empty()) break;
  }
  return order;
}

TEST(Account, OrdersRowsAsTheyRunOverASlowLink) {
  const std::string yaml = experiment("sweep: {strategy: [flat, fsdp], model.layers: [1, 3, 8]}\n");
  const auto words = [](const Words& words) {
    return with_sets(words, {"model.vocab_size=750", "model.d_model=64", "model.d_ff=176",
                             "train.warmup_steps=1"});
  };
  TemporaryFolder folder("order.yaml", yaml);
  const CommandResult account =
      must_run(folder, words({"account", "order.yaml", "--hosts", "2x1", "--link",
                              "100Mbit/s,100us", "--tflops", "0.05", "--format", "json"}));
  CommandResult run;
  const Order order = measured_order(json::parse(account.out), 1.4, [&] {
    TemporaryFolder own("order.yaml", yaml);
    run = run_ddprun(own, words({"order.yaml"}), two_hosts(1, {"--rate", "100mbit"}));
    return run.status == 0 ? rows_of(own, "order") : json::array();
  });
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(order.wrong, "");
  EXPECT_GE(order.pairs, 12);
}

TEST(Account, OrdersRowsByWhatTheyCompute) {
  const std::string yaml = experiment(
      "sweep: {train.batch_per_rank: [1, 8, 64], model.recompute: [none, every_block]}\n");
  TemporaryFolder folder("order.yaml", yaml);
  const CommandResult account =
      must_run(folder, {"account", "order.yaml", "--link", "10GB/s,10us", "--format", "json"});
  const Order order = measured_order(json::parse(account.out), 3, [&] {
    TemporaryFolder own("order.yaml", yaml);
    must_run(own, with_sets({"order.yaml"}, {"train.warmup_steps=1"}));
    return rows_of(own, "order");
  });
  EXPECT_EQ(order.wrong, "");
  EXPECT_EQ(order.pairs, 12);
}

TEST(Account, NamesTheFastestRowThatFits) {
  TemporaryFolder folder(
      "a.yaml",
      experiment("sweep: {strategy: [flat, fsdp], model.recompute: [none, every_block]}\n"));
  const auto account = [&](const char* memory, const char* columns = "0") {
    return run_ddprun(folder, {"account", "a.yaml", "--ranks", "2,64", "--memory", memory, "--link",
                               "1GB/s,5us", "--tflops", "0.1", "--columns", columns})
        .out;
  };
  EXPECT_THAT(account("1GB"),
              AllOf(HasSubstr("The fastest row that fits in 1 GB: strategy="),
                    HasSubstr("model.recompute=none on 64 ranks"),
                    HasSubstr("recompute: none\nworld:\n  size: 64\n"), HasSubstr("least tokens"),
                    HasSubstr("computing takes longer than communication on up to 2")));
  EXPECT_THAT(account("1MB"), HasSubstr("No row fits in 0.001 GB"));
  // Columns go before rows look alike.
  EXPECT_THAT(account("1GB", "100"),
              AllOf(HasSubstr("\nstrategy=flat, model.recompute=every_block  "),
                    HasSubstr("\n100 columns are too few for: ")));
}

TEST(Account, RefusesInOneSentence) {
  TemporaryFolder folder("a.yaml", experiment("sweep: {world.size: [1, 2]}\n"));
  folder.write("c.yaml",
               "experiment: collectives\nworld: {size: 2, backend: shm}\n"
               "collectives: {bytes: 1000}\n");
  const auto refusal = [&](Words arguments) {
    arguments.insert(arguments.begin(), "account");
    return refusal_of(folder, arguments);
  };
  EXPECT_THAT(refusal({"a.yaml", "--memory", "80"}), HasSubstr("needs a size with its unit"));
  EXPECT_THAT(refusal({"a.yaml", "--ranks", "4"}), HasSubstr("the sweep replaces it"));
  EXPECT_THAT(refusal({"c.yaml"}), HasSubstr("this kind of experiment has no account"));
  folder.write("h.yaml", experiment(""));
  EXPECT_THAT(refusal({"h.yaml", "--ranks", "3", "--set", "strategy={name: hsdp, shard_ranks: 2}"}),
              HasSubstr("shard"));
}

/// Bytes that all ranks of a run take: what they share counts once.
double taken_by(const json& row) {
  double bytes = 0;
  for (const json& rank : row["ranks"]) {
    bytes +=
        rank["peak_resident_bytes"].get<double>() - rank["shared_resident_bytes"].get<double>();
  }
  return bytes;
}

TEST(Account, ARankMoreTakesWhatIsPredictedForIt) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator keeps what is freed";
  TemporaryFolder folder("ranks.yaml", experiment("sweep:\n"
                                                  "  world.size: [2, 6]\n"
                                                  "  world.backend: [shm, gloo]\n"));
  must_run(folder, {"ranks.yaml"});
  const json rows = rows_of(folder, "ranks");
  ASSERT_EQ(rows.size(), 4u);
  for (std::size_t i = 0; i < 2; ++i) {  // the first key changes last
    const json &few = rows[i], &many = rows[i + 2];
    SCOPED_TRACE(many["label"]);
    ASSERT_EQ(many["world_size"], 6);
    double tensors = 0;
    for (const json& phase : many["predicted"]["phases"]) {
      tensors = std::max(tensors, phase["bytes"].get<double>());
    }
    const double each = (taken_by(many) - taken_by(few)) / 4;
    EXPECT_LE(each, rank_bytes(tensors));
    EXPECT_GE(each, 0.4 * rank_bytes(tensors));
  }
}

TEST(Account, ARunThatDoesNotFitIsRefusedBeforeARankStarts) {
  TemporaryFolder folder("large.yaml",
                         "model: {preset: 10B-2026, context_length: 4096, kernels: reference}\n"
                         "data: {source: random}\n"
                         "world: {size: 64}\n"
                         "strategy: flat\nprecision: fp32\nattention: flash\n"
                         "optimizer: {name: adamw, lr: 1e-3}\n"
                         "train: {batch_per_rank: 8, warmup_steps: 1, steps: 1}\n");
  const CommandResult run = must_end(2, folder, {"large.yaml"});
  EXPECT_THAT(run.err, AllOf(HasSubstr("more memory than this machine has"),
                             HasSubstr("64 ranks of"), HasSubstr("world.memory_check: false")));
  const CommandResult valid = must_run(folder, {"validate", "large.yaml"});
  EXPECT_THAT(valid.out, HasSubstr("this machine cannot run 1 of them"));
  EXPECT_THAT(
      run_ddprun(folder, {"validate", "large.yaml", "--set", "world.memory_check=false"}).out,
      Not(HasSubstr("cannot run")));
}

TEST(Account, StandsBesideWhatWasMeasured) {
  TemporaryFolder folder("a.yaml", experiment(""));
  EXPECT_THAT(run_ddprun(folder, {"-v", "a.yaml"}).out,
              AllOf(HasSubstr("predicted MB"), HasSubstr("difference")));
  EXPECT_THAT(run_ddprun(folder, {"validate", "-v", "a.yaml"}).out, HasSubstr("peak MB"));
}

}  // namespace
}  // namespace ddprun::test
