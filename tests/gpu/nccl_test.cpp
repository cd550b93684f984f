// NCCL and ranks that fail, where there is a GPU; several ranks share it, so that one suffices.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <chrono>
#include <thread>

#include "ddprun/base/clock.h"
#include "ddprun/device/device_library.h"
#include "support/ddprun_command.h"
#include "support/free_port.h"
#include "support/gpu_ranks.h"
#include "support/process_ranks.h"

namespace ddprun::test {
namespace {

constexpr double kTimeoutS = 15;  // connecting takes seconds where ranks share a GPU

class Nccl : public GpuTest {
 protected:
  /// Runs `body` in processes that share the first GPU, each with its group; returns their ends.
  template <class Body>
  static std::vector<int> ends_of(int ranks, const Body& body) {
    const WorldConfig world = gpu_world(1, ranks);
    return run_process_ranks(ranks, [&](const RankInfo& info) {
      const auto device = open_rank_device(world, info);
      const auto group = connect(info, {.timeout_s = kTimeoutS}, "run", host_identity(), *device);
      return body(*group);
    });
  }

  static at::Tensor filled(ProcessGroup& group, std::int64_t elements, double value) {
    const auto options = at::TensorOptions(group.device().torch_device()).dtype(at::kFloat);
    return group.allocate(elements, options).fill_(value);
  }

  /// Ones that were reduced, behind a barrier. NCCL connects the ranks in the first call of each
  /// algorithm, on the host: that is not what a test of a later call is about.
  static at::Tensor reduced(ProcessGroup& group, std::int64_t elements) {
    const at::Tensor tensor = filled(group, elements, 1);
    group.all_reduce(tensor, ReduceOp::sum, "first").wait();
    group.barrier();
    return tensor;
  }
};

TEST_F(Nccl, ThreeRanksDivideTheSumOnce) {
  const auto ends = ends_of(3, [](ProcessGroup& group) {
    const int n = group.size();
    // 1/3 is no float: NCCL's own mean would round three times.
    const at::Tensor mine = filled(group, 3 * 1000, n * (group.rank() + 1));
    group.all_reduce(mine, ReduceOp::avg, "mean").wait();
    const bool reduced = mine.eq(6).all().item<bool>();
    const at::Tensor slice = filled(group, 1000, 0);
    group.reduce_scatter(slice, mine, ReduceOp::avg, "slice").wait();
    const bool scattered = slice.eq(6).all().item<bool>();
    group.shutdown();
    return reduced && scattered ? 0 : 1;
  });
  EXPECT_THAT(ends, Each(0));
}

TEST_F(Nccl, TheEndOfACollectiveIsMarkedBehindIt) {
  const auto ends = ends_of(2, [](ProcessGroup& group) {
    const at::Tensor large = reduced(group, 16 << 20);
    group.take_records();
    const std::int64_t before = now_ns();
    group.all_reduce(large, ReduceOp::sum, "large").wait();
    group.device().synchronize();
    const std::int64_t after = now_ns();
    const auto records = group.take_records();
    group.shutdown();
    if (records.size() != 1) return 1;
    const std::int64_t slack_ns = 100'000;
    const auto& record = records[0];
    if (record.enqueue_ns < before - slack_ns || record.end_ns > after + slack_ns) return 2;
    if (record.start_ns > record.end_ns || record.wait_end_ns < record.end_ns - slack_ns) return 3;
    // 64 MiB through sockets takes milliseconds: a mark in front of it would show nothing.
    return record.end_ns - record.start_ns > 1'000'000 ? 0 : 4;
  });
  EXPECT_THAT(ends, Each(0));
}

TEST_F(Nccl, ADeadRankEndsTheHostsWaitForTheGpu) {
  const auto ends = ends_of(2, [](ProcessGroup& group) {
    const at::Tensor tensor = reduced(group, 1 << 20);
    if (group.rank() == 1) die_later();
    return expect_comm_error(
        [&] {
          group.all_reduce(tensor, ReduceOp::sum, "with nobody").wait();
          tensor[0].item<float>();       // blocks in the driver until the watchdog has aborted
          group.device().synchronize();  // says why
        },
        {"NCCL"});
  });
  EXPECT_THAT(ends, ElementsAre(0, 3));
}

TEST_F(Nccl, ALateRankIsATimeout) {
  const auto ends = ends_of(2, [](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kTimeoutS + 5));
      return 3;
    }
    return expect_comm_error([&] { group.barrier("late"); }, {"timed out"});
  });
  EXPECT_THAT(ends, ElementsAre(0, 3));
}

TEST_F(Nccl, ARankThatThrowsWhileCollectivesAreUnderWayEnds) {
  const std::int64_t begin_ns = now_ns();
  const auto ends = ends_of(2, [](ProcessGroup& group) {
    const at::Tensor tensor = reduced(group, 1 << 20);
    if (group.rank() == 1) return expect_comm_error([&] { group.barrier(); }, {"NCCL"});
    try {
      group.all_reduce(tensor, ReduceOp::sum, "never waited for");
      throw std::runtime_error("another reason");
    } catch (const std::runtime_error&) {
      return 0;  // the group's destructor ends the kernel
    }
  });
  EXPECT_THAT(ends, Each(0));
  EXPECT_LT(now_ns() - begin_ns, 60'000'000'000);
}

TEST_F(Nccl, ARankThatNeverConnectsIsACommError) {
  const WorldConfig world = gpu_world(1, 2);
  const auto ends = run_process_ranks(2, [&](const RankInfo& info) {
    const auto device = open_rank_device(world, info);
    if (info.rank == 1) {  // comes to the store, and then waits for gloo
      return expect_comm_error(
          [&] { connect(info, {.backend = BackendKind::gloo, .timeout_s = kTimeoutS}, "run"); },
          {});
    }
    _exit(expect_comm_error(
        [&] { connect(info, {.timeout_s = kTimeoutS}, "run", host_identity(), *device); },
        {"NCCL could not connect"}));
  });
  EXPECT_THAT(ends, Each(0));
}

TEST_F(Nccl, MemoryOutlivesItsGroupAndGroupsFollowOneAnother) {
  const WorldConfig world = gpu_world(1, 2);
  const int port = free_port();
  const auto ends = run_process_ranks(2, [&](const RankInfo& own) {
    const RankInfo info = joined(own, port);
    const auto device = open_rank_device(world, info);
    at::Tensor kept;
    for (const char* run : {"first", "second"}) {
      const auto group = connect(info, {.timeout_s = kTimeoutS}, run, host_identity(), *device);
      const at::Tensor mine = filled(*group, 1 << 20, info.rank + 1);
      group->all_reduce(mine, ReduceOp::sum, "sum").wait();
      if (kept.defined() && !kept.eq(3).all().item<bool>()) return 1;
      kept = mine;
      group->shutdown();
    }
    return kept.eq(3).all().item<bool>() ? 0 : 2;
  });
  EXPECT_THAT(ends, Each(0));
}

TEST_F(Nccl, BuffersAreRegisteredAndCountedAndTheTopologyIsThere) {
  const auto ends = ends_of(2, [](ProcessGroup& group) {
    const auto before = group.device().memory().allocated_bytes;
    const at::Tensor mine = filled(group, 1 << 20, 1);
    const auto after = group.device().memory().allocated_bytes;
    std::string buffers;
    for (const auto& [name, text] : group.device().describe()) {
      if (name == "nccl buffers") buffers = text;
    }
    std::fprintf(stderr, "nccl buffers: %s\n", buffers.c_str());
    const bool topology = !group.device().topology().empty();
    group.shutdown();
    if (after - before < (4 << 20)) return 1;
    if (buffers.find("registered") == std::string::npos) return 2;
    return topology == (group.rank() == 0) ? 0 : 3;
  });
  EXPECT_THAT(ends, Each(0));
}

/// On two ranks that share the GPU.
const Words kRunShared = gpu_command("run", "shared.yaml", gpu_world(1, 2));

TEST_F(Nccl, AnEmulatedRunProvesItselfAndShowsNoTimes) {
  TemporaryFolder folder(
      "shared.yaml", tiny_experiment("sweep: {strategy: [naive, overlap, bucketed, torch_ddp]}\n"));
  const CommandResult run = must_run(folder, kRunShared);
  EXPECT_THAT(run.out, AllOf(HasSubstr("(emulated)"), HasSubstr("withheld")));
  const auto result_folder = only_result(folder, "shared");
  EXPECT_TRUE(std::filesystem::exists(result_folder / "nccl_topology.xml"));
  const json result = json::parse(read_file(result_folder / "result.json"));
  EXPECT_TRUE(result["environment"].contains("nccl buffers"));
  EXPECT_THAT(result["environment"]["nccl variables"].get<std::string>(),
              HasSubstr("NCCL_HOSTID=ddprun-emulated-0"));
  for (const json& row : result["rows"]) {
    EXPECT_EQ(row["emulated"], true);
    EXPECT_EQ(row["proof"]["status"], "passed") << row["label"];
  }
}

TEST_F(Nccl, ARowWithoutMemoryIsARowAndTheNextOneRuns) {
  // The scores of attention take 64 GiB, several times, and the host next to nothing.
  TemporaryFolder folder("shared.yaml",
                         tiny_experiment("sweep: {model.context_length: [16, 65536, 32]}\n"));
  must_end(1, folder, kRunShared);
  const json rows = rows_of(folder, "shared");
  EXPECT_EQ(rows[0]["status"], "ok");
  EXPECT_EQ(rows[1]["status"], "out of memory") << rows[1]["reason"];
  EXPECT_THAT(rows[1]["reason"].get<std::string>(),
              AllOf(HasSubstr("tried to allocate"), HasSubstr("on GPU 0")));
  EXPECT_EQ(rows[2]["status"], "ok") << rows[2]["reason"];
}

}  // namespace
}  // namespace ddprun::test
