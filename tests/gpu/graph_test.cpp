// Steps captured as a CUDA graph: marks in them, and whole runs whose parameters equal the eager
// ones bit for bit.
#include <ATen/Functions.h>

#include "ddprun/device/device_library.h"
#include "support/ddprun_command.h"
#include "support/gpu_ranks.h"
#include "support/process_ranks.h"

namespace ddprun::test {
namespace {

class CudaGraph : public GpuTest {
 protected:
  /// tiny_experiment() and `more` on all GPUs, with the warm-up that a graph needs.
  CommandResult run(const std::string& command, const std::string& more,
                    const std::vector<std::string>& settings = {}) {
    folder_.write("graph.yaml", tiny_experiment(more));
    auto words = gpu_command(command, "graph.yaml", gpu_world(probe_.count));
    words = with_sets(std::move(words), {"train.warmup_steps=3"});
    return run_ddprun(folder_, with_sets(std::move(words), settings));
  }

  TemporaryFolder folder_;
};

/// In a process of its own, as a rank is: 0, or the number of the statement that does not hold.
int capture_and_launch() {
  const auto device = open_device(DeviceKind::cuda, 0);
  const auto options = at::TensorOptions(device->torch_device()).dtype(at::kFloat);
  const at::Tensor a = at::ones({1024, 1024}, options);
  at::Tensor sum = at::zeros({}, options);
  at::mm(a, a).sum();  // the first call sets things up
  Mark begin = 0, end = 0;
  const auto graph = device->capture([&] {
    begin = device->mark();
    at::Tensor product = at::mm(a, a);
    for (int i = 0; i < 10; ++i) product = at::mm(product, a);
    end = device->mark();
    sum.add_(1);
  });
  if (sum.item<float>() != 0) return 1;  // captured, not done
  std::int64_t free_ns = 0;
  for (int launch = 1; launch <= 3; ++launch) {
    const Mark before = device->mark();
    graph->launch();
    const Mark after = device->mark();
    if (device->time_of(before) > device->time_of(begin)) return 2;
    if (device->time_of(begin) >= device->time_of(end)) return 3;
    if (device->time_of(end) > device->time_of(after)) return 4;
    if (device->time_of(begin) < free_ns) return 5;  // of this launch, not of the last
    free_ns = device->time_of(end);
    if (sum.item<float>() != static_cast<float>(launch)) return 6;
    device->synchronize();
  }
  try {
    device->capture([&] { sum.item<float>(); });
    return 7;
  } catch (const Error& error) {
    if (std::string(error.what()).find("cannot be captured") == std::string::npos) return 8;
  }
  sum.add_(1);  // the stream goes on
  return sum.item<float>() == 4 ? 0 : 9;
}

TEST_F(CudaGraph, LaunchesRepeatTheWorkAndTellItsTimes) {
  EXPECT_THAT(run_process_ranks(1, [](const RankInfo&) { return capture_and_launch(); }), Each(0));
}

class CapturedStrategies : public CudaGraph, public testing::WithParamInterface<const char*> {};

// Between replays the model reads what they left: it writes text, of other lengths than it trains
// with, and is evaluated.
TEST_P(CapturedStrategies, TrainToTheSameBits) {
  const CommandResult run = this->run(
      "run",
      std::string("sweep: {strategy: [") + GetParam() + "], execution.mode: [eager, cuda_graph]}\n",
      {"train.accumulate=2", "optimizer.clip_norm=0.5", "data={source: text, path: graph.yaml}",
       "train.sample={every: 1, tokens: 3, prompt: a}",
       "train.eval={every: 1, batches: 1, path: graph.yaml}"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json result = result_of(folder_, "graph");
  const json& rows = result["rows"];
  ASSERT_GE(rows.size(), 4U);
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    for (const json& row : {rows[i], rows[i + 1]}) {
      EXPECT_THAT(row["proof"]["status"].get<std::string>(), AnyOf("passed", "declared"));
    }
    EXPECT_EQ(rows[i]["ranks"][0]["parameter_hash"], rows[i + 1]["ranks"][0]["parameter_hash"])
        << rows[i]["label"] << " and " << rows[i + 1]["label"];
    const json& samples = rows[i + 1]["ranks"][0]["samples"];
    for (const char* key : {"loss", "validation_loss", "gradient_norm"}) {
      EXPECT_EQ(rows[i]["ranks"][0]["samples"][key], samples[key]) << key;
    }
    for (std::size_t step = 0; step < samples["step"].size(); ++step) {
      const auto of = [&](const char* key) { return samples[key][step].get<double>(); };
      EXPECT_NEAR(of("forward_ms") + of("backward_ms") + of("synchronize_ms") + of("optimizer_ms"),
                  of("step_ms"), 1e-2);
      EXPECT_GT(of("forward_ms"), 0);
      EXPECT_GE(of("synchronize_ms"), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CapturedStrategies,
                         testing::Values("naive, flat, overlap, bucketed",
                                         "zero1, {name: zero1, gather_under_forward: true}, "
                                         "zero1_cs336, zero2",
                                         "fsdp, {name: fsdp, reshard_after_forward: false}, "
                                         "{name: hsdp, shard_ranks: 1}",
                                         "{name: local_sgd, every: 1}, gossip"));

TEST_F(CudaGraph, PrecisionsProveThemselves) {
  const CommandResult run = this->run(
      "run", "sweep: {precision: [bf16_pure, fp16_mixed]}\nexecution: {mode: cuda_graph}\n");
  EXPECT_EQ(run.status, 0) << run.out << run.err;
}

TEST_F(CudaGraph, VerifyHolds) {
  const CommandResult run = this->run("verify", "execution: {mode: cuda_graph}\n");
  EXPECT_EQ(run.status, 0) << run.out << run.err;
}

}  // namespace
}  // namespace ddprun::test
