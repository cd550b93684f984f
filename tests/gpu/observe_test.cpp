// What can be seen of a run on a GPU: ranges on a profiler's timeline, memory by phase and by what
// it is, the memory snapshot, the device's name.
#include <algorithm>
#include <cstdlib>

#include "ddprun/device/device_library.h"
#include "ddprun/measure/device_peak.h"
#include "support/ddprun_command.h"
#include "support/gpu_ranks.h"
#include "support/nvtx_record.h"

namespace ddprun::test {
namespace {

class Observed : public GpuTest {
 protected:
  void SetUp() override {
    folder_.write("gpu.yaml", tiny_experiment());
    GpuTest::SetUp();
  }

  /// A run of tiny_experiment() on all GPUs, by the kernels that there are.
  void run(const std::vector<std::string>& settings, std::vector<std::string> environment = {}) {
    DdprunProcess process(folder_, with_sets(run_on_each(probe_.count), settings),
                          std::move(environment));
    if (process.wait(120) != 0) throw std::runtime_error(process.err());  // ends the test
  }

  std::filesystem::path result() const { return folder_.path() / "results/gpu/latest"; }
  json first_rank() const {
    return json::parse(read_file(result() / "result.json"))["rows"][0]["ranks"][0];
  }

  TemporaryFolder folder_;
};

TEST_F(Observed, AllReducesLieAfterBackwardOrWithinIt) {
  for (const std::string strategy : {"naive", "overlap"}) {
    const std::string record = folder_.path() / ("record of " + strategy);
    run({"strategy=" + strategy},
        {std::string("NVTX_INJECTION64_PATH=") + kNvtxRecorder, "NVTX_RECORDER_FILE=" + record});
    const auto ranks = nvtx_steps(read_nvtx_record(record));
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(probe_.count)) << strategy;
    for (const auto& [process, steps] : ranks) {
      ASSERT_EQ(steps.size(), 4U);
      const std::string phase = strategy == "naive" ? "step/synchronize" : "step/backward";
      for (const NvtxStep& step : steps) {
        EXPECT_THAT(step.enqueued, ElementsAre(testing::Pair(phase, 12)));
        EXPECT_THAT(step.ended, ElementsAre(testing::Pair("step/synchronize", 12)));
      }
    }
  }
}

TEST_F(Observed, MemoryOfEachPhaseIsTheAllocators) {
  run({});
  const json rank = first_rank();
  std::vector<std::string> phases;
  for (const json& each : rank["memory_phases"]) {
    phases.push_back(each["phase"]);
    EXPECT_GT(each["allocated_bytes"], 0) << each;
    EXPECT_GE(each["peak_allocated_bytes"], each["allocated_bytes"]) << each;
    EXPECT_GE(each["reserved_bytes"], each["allocated_bytes"]) << each;
    EXPECT_GE(each["peak_reserved_bytes"], each["peak_allocated_bytes"]) << each;
    EXPECT_EQ(each["retries"], 0) << each;
  }
  EXPECT_THAT(phases, ElementsAre("setup", "forward", "backward", "synchronize", "optimizer"));
}

TEST_F(Observed, TheRecordOfAStepIsTheAllocatorsMemory) {
  run({"profile.memory=true", "train.warmup_steps=2"});
  const json rank = first_rank();
  std::int64_t allocators = 0;
  for (const json& phase : rank["memory_phases"]) {
    if (phase["phase"] == "setup") continue;
    allocators = std::max(allocators, phase["peak_allocated_bytes"].get<std::int64_t>());
  }
  const json& peak = rank["memory_peak"];
  EXPECT_EQ(sum_of(peak["tensors"]), allocators);
  EXPECT_EQ(sum_of(peak["categories"]), peak["resident_bytes"]);
  EXPECT_EQ(peak["unexplained_bytes"], 0) << "no thread beside autograd's has tensors";
  EXPECT_GT(peak["resident_bytes"], allocators);
  for (const char* file : {"memory.json", "memory.csv", "allocations.csv", "memory.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(result() / "profile/01" / file)) << file;
  }
}

TEST_F(Observed, TheSnapshotIsAPickleOfAllocationsWithPhasesAndFrames) {
  if (std::system("python3 -c 0") != 0) GTEST_SKIP() << "python3 is needed to read the pickle";
  run({"profile.memory_snapshot=true"});
  EXPECT_EQ(first_rank()["memory_snapshot"], "memory_rank0.pickle");
  const std::string file = result() / "profile/01/memory_rank0.pickle";
  folder_.write("read.py", R"(import pickle, sys
snapshot = pickle.load(open(sys.argv[1], 'rb'))
assert snapshot['segments'], 'segments'
events = [event for trace in snapshot['device_traces'] for event in trace]
allocations = [event for event in events if event['action'] == 'alloc']
phases = {event.get('user_metadata') for event in allocations}
assert {'setup', 'forward', 'backward'} <= phases, phases
names = {frame['name'] for event in allocations for frame in event['frames']}
assert any('ddprun' in name for name in names), names
)");
  const std::string command = "python3 '" + (folder_.path() / "read.py").string() + "' '" + file;
  EXPECT_EQ(std::system((command + "'").c_str()), 0);
}

TEST_F(Observed, TheDeviceHasANameAndAnMfuIfItsPeakIsKnown) {
  run({});
  const json row = json::parse(read_file(result() / "result.json"))["rows"][0];
  const std::string name = row["ranks"][0]["device_name"];
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(row["ranks"][0]["matmul_dtype"], "float32");
  EXPECT_EQ(row["statistics"]["mfu"].is_number(), device_peak(name, "float32").flops > 0);
  EXPECT_GT(row["statistics"]["tflops"], 0);
}

}  // namespace
}  // namespace ddprun::test
