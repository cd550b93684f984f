// Device cuda where there is a GPU: marks, memory, NCCL's collectives, whole runs and their proofs.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/device/device_library.h"
#include "support/ddprun_command.h"
#include "support/gpu_ranks.h"
#include "support/process_ranks.h"

namespace ddprun::test {
namespace {

class Cuda : public GpuTest {
 protected:
  /// Runs `body` in so many processes, a GPU each; all must return 0.
  static void in_ranks(int count, const std::function<int(const RankInfo&)>& body) {
    EXPECT_THAT(run_process_ranks(count, body), Each(0));
  }
};

TEST_F(Cuda, MarksFollowTheDevicesWork) {
  in_ranks(1, [](const RankInfo&) {
    const auto device = open_device(DeviceKind::cuda, 0);
    const auto options = at::TensorOptions(device->torch_device()).dtype(at::kFloat);
    const at::Tensor a = at::ones({1024, 1024}, options);
    at::mm(a, a);  // the first call sets things up
    device->synchronize();
    const std::int64_t before_ns = now_ns();
    const Mark begin = device->mark();
    at::Tensor product = a;
    for (int i = 0; i < 20; ++i) product = at::mm(product, a);
    const Mark end = device->mark();
    device->synchronize();  // sets a new anchor: the marks now lie before it
    const std::int64_t done_ns = now_ns();
    constexpr std::int64_t kSlackNs = 10'000;  // of CUDA's float milliseconds
    EXPECT_GT(device->time_of(begin), before_ns - kSlackNs);
    EXPECT_LT(device->time_of(begin), device->time_of(end));
    EXPECT_LT(device->time_of(end), done_ns + kSlackNs);
    EXPECT_EQ(device->time_of(end), device->time_of(end));
    return 0;
  });
}

TEST_F(Cuda, MemoryIsCounted) {
  in_ranks(1, [](const RankInfo&) {
    const auto device = open_device(DeviceKind::cuda, 0);
    constexpr std::int64_t kBytes = 64 << 20;
    const auto options = at::TensorOptions(device->torch_device()).dtype(at::kByte);
    const std::int64_t before = device->memory().allocated_bytes;
    { const at::Tensor tensor = at::zeros({kBytes}, options); }
    EXPECT_EQ(device->memory().allocated_bytes, before);
    EXPECT_EQ(device->memory().peak_allocated_bytes, before + kBytes);
    EXPECT_GE(device->memory().reserved_bytes, kBytes);
    device->reset_memory();
    EXPECT_EQ(device->memory().peak_allocated_bytes, before);
    return 0;
  });
}

TEST_F(Cuda, CollectivesGiveTheExactMean) {
  const WorldConfig world = gpu_world(probe_.count);
  in_ranks(static_cast<int>(world.size), [&](const RankInfo& info) {
    const auto device = open_rank_device(world, info);
    const auto group = connect(info, {.timeout_s = 30}, "run", host_identity(), *device);
    EXPECT_EQ(group->backend_name(), "nccl");
    const int n = group->size();
    const at::Tensor mine =
        group->allocate(n * 1000, at::TensorOptions(device->torch_device()).dtype(at::kFloat));
    mine.fill_(static_cast<double>(n * (info.rank + 1)));  // the mean is n (n + 1) / 2
    group->all_reduce(mine, ReduceOp::avg, "mean").wait();
    EXPECT_TRUE(mine.eq(n * (n + 1) / 2).all().item<bool>());
    const at::Tensor slice = at::zeros({1000}, mine.options());
    group->reduce_scatter(slice, mine, ReduceOp::avg, "slice").wait();
    EXPECT_TRUE(slice.eq(n * (n + 1) / 2).all().item<bool>());
    slice.fill_(static_cast<double>(info.rank));
    group->all_gather(mine, slice, "gather").wait();
    EXPECT_EQ(mine[-1].item<double>(), n - 1);
    group->broadcast(mine, n - 1, "broadcast").wait();
    group->barrier();
    const auto records = group->take_records();
    EXPECT_EQ(records.size(), 5U);
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_LE(records[i].start_ns, records[i].end_ns);
      EXPECT_TRUE(i == 0 || records[i - 1].end_ns <= records[i].end_ns);
    }
    group->shutdown();
    return 0;
  });
}

TEST_F(Cuda, ADeadRankIsACommErrorAndNotAnAbort) {
  const WorldConfig world = gpu_world(probe_.count);
  const auto ends = run_process_ranks(2, [&](const RankInfo& info) -> int {
    const auto device = open_rank_device(world, info);
    const auto group = connect(info, {.timeout_s = 15}, "run", host_identity(), *device);
    group->barrier();  // NCCL connects the ranks in the first one
    if (info.rank == 1) die_later();
    try {
      group->barrier();
    } catch (const CommError&) {
      _exit(0);
    }
    _exit(1);
  });
  EXPECT_THAT(ends, ElementsAre(0, 3));
}

TEST_F(Cuda, ARunProvesItself) {
  TemporaryFolder folder("gpu.yaml",
                         tiny_experiment("sweep: {strategy: [naive, flat, overlap, bucketed]}\n"));
  must_run(folder, gpu_command("run", "gpu.yaml", gpu_world(probe_.count)));
  const json result = result_of(folder, "gpu");
  EXPECT_THAT(result["environment"]["backend"].get<std::string>(), HasSubstr("nccl"));
  EXPECT_TRUE(result["environment"].contains("driver"));
  for (const json& row : result["rows"]) {
    EXPECT_EQ(row["proof"]["status"], "passed") << row["label"];
    EXPECT_GT(row["ranks"][0]["device_memory"]["peak_allocated_bytes"], 0);
  }
}

TEST_F(Cuda, ARunEqualsOneProcess) {
  TemporaryFolder folder("gpu.yaml", tiny_experiment());
  must_run(folder, gpu_command("verify", "gpu.yaml", gpu_world(probe_.count)));
}

TEST_F(Cuda, DoctorReduces) {
  TemporaryFolder folder;
  const CommandResult run = must_run(folder, {"doctor"});
  EXPECT_THAT(run.out, HasSubstr("nccl all-reduce"));
}

}  // namespace
}  // namespace ddprun::test
