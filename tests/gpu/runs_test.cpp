// Whole programs where there is a GPU: every strategy, every kind of experiment, checkpoints.
#include "support/ddprun_command.h"
#include "support/gpu_ranks.h"

namespace ddprun::test {
namespace {

class RunsOnGpu : public GpuTest {
 protected:
  /// The rows of a run of tiny_experiment() and `more` on all GPUs.
  json rows(const std::string& name, const std::string& more, const Words& settings = {}) {
    folder_.write(name + ".yaml", tiny_experiment(more, 4));
    must_run(folder_,
             with_sets(gpu_command("run", name + ".yaml", gpu_world(probe_.count)), settings));
    return proved(name);
  }
  json proved(const std::string& name) {
    json rows = rows_of(folder_, name);
    for (const json& row : rows) {
      EXPECT_THAT(row["proof"]["status"].get<std::string>(), AnyOf("passed", "declared", "control"))
          << row["label"];
    }
    return rows;
  }

  TemporaryFolder folder_;
};

double last_loss(const json& row) {
  return row["ranks"][0]["samples"]["loss"].back().get<double>();
}

class StrategiesOnGpu : public RunsOnGpu, public testing::WithParamInterface<const char*> {};

TEST_P(StrategiesOnGpu, AreProvedAndTrainAsOnTheCpu) {
  const std::string sweep = std::string("sweep: {strategy: [") + GetParam() + "]}\n";
  const Words settings = {"train.accumulate=2", "optimizer.clip_norm=0.5"};
  const json on_gpu = rows("gpu", sweep, settings);
  folder_.write("cpu.yaml", tiny_experiment(sweep, 4));
  must_run(folder_, with_sets(with_sets({"run", "cpu.yaml"}, settings),
                              {"model.kernels=reference",
                               "world.size=" + std::to_string(on_gpu[0]["ranks"].size())}));
  const json on_cpu = proved("cpu");
  ASSERT_EQ(on_gpu.size(), on_cpu.size());
  for (std::size_t i = 0; i < on_gpu.size(); ++i) {
    EXPECT_NEAR(last_loss(on_gpu[i]), last_loss(on_cpu[i]), 1e-4) << on_gpu[i]["label"];
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StrategiesOnGpu,
    testing::Values("{name: none, unsynchronized: true}, naive, flat, overlap, bucketed, torch_ddp",
                    "zero1, {name: zero1, gather_under_forward: true}, zero1_cs336, zero2, fsdp",
                    "{name: hsdp, shard_ranks: 1}, {name: powersgd, rank: 2}, "
                    "{name: local_sgd, every: 2}, gossip"));

TEST_F(RunsOnGpu, FusedKernelsTrainAsTheCpusDo) {
  const Words fused = {"model.kernels=fused", "attention=sdpa", "optimizer.clip_norm=0.5",
                       "train.warmup_steps=3"};
  const auto compare = [&](const std::string& name, const std::string& sweep,
                           const Words& on_device) {
    Words settings = fused;
    settings.insert(settings.end(), on_device.begin(), on_device.end());
    const json on_gpu = rows(name, sweep, settings);
    const std::string ranks = std::to_string(on_gpu[0]["ranks"].size());
    folder_.write(name + "-cpu.yaml", tiny_experiment(sweep, 4));
    must_run(folder_,
             with_sets(with_sets({"run", name + "-cpu.yaml"}, fused), {"world.size=" + ranks}));
    const json on_cpu = proved(name + "-cpu");
    for (std::size_t i = 0; i < on_gpu.size(); ++i) {
      EXPECT_NEAR(last_loss(on_gpu[i]), last_loss(on_cpu[i]), 1e-3) << on_gpu[i]["label"];
    }
  };
  compare("eager", "sweep: {strategy: [overlap, zero1, fsdp], precision: [fp32, bf16_mixed]}\n",
          {});
  compare("captured", "sweep: {train.accumulate: [1, 2]}\n", {"execution.mode=cuda_graph"});
}

TEST_F(RunsOnGpu, ARunGoesOnFromACheckpointToTheSameBits) {
  const auto hash = [](const json& rows) { return rows[0]["ranks"][0]["parameter_hash"]; };
  for (const std::string name : {"fp32", "fp8"}) {
    const std::string precision = name == "fp8" ? "{name: fp8, scaling: delayed}" : name;
    const Words settings = {"strategy=zero2", "precision=" + precision};
    Words saved = settings;
    saved.insert(saved.end(), {"train.checkpoint={every: 2, async: true, path: " + name + "}",
                               "train.resume_from=latest"});
    Words cut = saved;
    cut.emplace_back("train.steps=1");
    rows(name + "-cut", "", cut);
    const json on = rows(name + "-on", "", saved);
    EXPECT_EQ(element_of(on[0]["proof"]["checks"], "name", "resumed").value("status", ""),
              "passed");
    EXPECT_EQ(hash(on), hash(rows(name + "-whole", "", settings))) << precision;
  }
}

TEST_F(RunsOnGpu, CollectivesAreRight) {
  folder_.write("collectives.yaml",
                "experiment: collectives\n"
                "world: {size: 2, device: cuda, backend: nccl, emulate_ranks_on_one_gpu: true}\n"
                "collectives: {bytes: 300000}\n"
                "repeat: {warmup: 1, count: 3, seconds: 0}\n"
                "sweep:\n"
                "  collectives.collective: [all_reduce, broadcast, reduce_scatter, all_gather]\n"
                "  collectives.dtype: [float32, int8]\n");
  must_run(folder_, {"run", "collectives.yaml"});
  for (const json& row : rows_of(folder_, "collectives")) EXPECT_EQ(row["status"], "ok") << row;
}

TEST_F(RunsOnGpu, SumsAreThoseOfScalarsAndAutocastIsSeenByHand) {
  const std::string folder = DDPRUN_SOURCE_DIR "/configs/cs336/";
  for (const auto& [file, name] : {std::pair("accumulation.yaml", "cs336-accumulation"),
                                   std::pair("autocast_dtypes.yaml", "cs336-autocast-dtypes")}) {
    must_run(folder_,
             with_sets({"run", folder + file}, {"world.device=cuda", "output.dir=results"}));
    proved(name);
  }
}

}  // namespace
}  // namespace ddprun::test
