// Memory of tensors, by phase and by what it is: what is counted, and in which phases. A device
// whose blocks are reported as CUDA's are, with figures that the test makes up, stands in for one.
#include "ddprun/experiments/training/run_observer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <thread>

#include "ddprun/device/memory_history.h"
#include "ddprun/memory/cpu_memory.h"
#include "ddprun/memory/private_memory.h"
#include "support/ddprun_command.h"
#include "support/thread_ranks.h"

namespace ddprun::test {
namespace {

at::Tensor tensor_of(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

TEST(CpuMemory, CountsTensorsWhileItIsAskedTo) {
  Device& device = cpu_device();
  EXPECT_EQ(device.memory().allocated_bytes, 0);
  {
    const auto counting = device.count_memory();
    const at::Tensor kept = tensor_of(1000);
    { const at::Tensor dropped = tensor_of(5000); }
    EXPECT_EQ(device.memory().allocated_bytes, 1000);
    EXPECT_EQ(device.memory().peak_allocated_bytes, 6000);
    device.reset_memory();
    EXPECT_EQ(device.memory().peak_allocated_bytes, 1000);
    std::thread([] {  // another rank, say
      const at::Tensor elsewhere = tensor_of(70'000);
      EXPECT_EQ(cpu_device().memory().allocated_bytes, 0);
    })
        .join();
    EXPECT_EQ(device.memory().peak_allocated_bytes, 1000);
  }
  EXPECT_EQ(device.memory().allocated_bytes, 0);
}

TEST(CpuMemory, CountsAFreeOnAnotherThread) {
  const auto counting = cpu_device().count_memory();
  at::Tensor handed = tensor_of(1000);
  at::Tensor mapped = allocate_private(5 << 20, at::kByte);
  std::thread([handed = std::move(handed), mapped = std::move(mapped)] {}).join();
  EXPECT_EQ(cpu_device().memory().allocated_bytes, 0);
}

TEST(CpuMemory, CountsWhatBackwardAllocates) {
  const auto counting = cpu_device().count_memory();
  at::Tensor leaf = at::ones({1000}).set_requires_grad(true);
  const at::Tensor loss = (leaf * leaf).sum();
  cpu_device().reset_memory();
  const std::int64_t before = cpu_device().memory().allocated_bytes;
  loss.backward();
  EXPECT_GE(cpu_device().memory().peak_allocated_bytes, before + 4000);
  EXPECT_GE(leaf.grad().numel(), 1000);
}

TEST(CpuMemory, CountsBuffersThatAreMapped) {
  static constexpr std::int64_t kBytes = 5 << 20;  // not whole huge pages
  const auto counting = cpu_device().count_memory();
  at::Tensor mapped = allocate_private(kBytes, at::kByte);
  EXPECT_EQ(cpu_device().memory().allocated_bytes, kBytes);
  mapped.reset();
  EXPECT_EQ(cpu_device().memory().allocated_bytes, 0);

  run_ranks(2,
            [](ProcessGroup& group) {
              const auto counting = cpu_device().count_memory();
              at::Tensor shared = group.allocate(kBytes, at::kByte);
              EXPECT_EQ(cpu_device().memory().allocated_bytes, kBytes);
              shared.reset();
              EXPECT_EQ(cpu_device().memory().allocated_bytes, 0);
            },
            {.backend = BackendKind::shm, .timeout_s = 30});
}

std::vector<std::string> phases_of(const RankResult& result) {
  std::vector<std::string> names;
  for (const PhaseMemory& each : result.memory_phases) names.push_back(each.phase);
  return names;
}

TEST(RunObserver, SeesSetUpAndThePhasesOfOneStep) {
  RunObserver observer({}, cpu_device(), 1, {});
  at::Tensor model;
  {
    const PhaseScope setup(Phase::setup);
    model = tensor_of(1000);
  }
  {
    const PhaseScope proof(Phase::backward);
    tensor_of(900'000);
  }
  for (std::int64_t index = 0; index < 4; ++index) {
    observer.before_step(index);
    {
      const PhaseScope step(Phase::step, index);
      for (const std::int64_t bytes : {3000, 2000}) {  // micro-batches
        at::Tensor activations;
        {
          const PhaseScope forward(Phase::forward);
          activations = tensor_of(bytes + 10'000 * std::abs(index - 1));
        }
        const PhaseScope backward(Phase::backward);
        activations.reset();
      }
    }
    observer.after_step(index);
  }
  RankResult result;
  observer.add_to(result, 0);
  ASSERT_THAT(phases_of(result), ElementsAre("setup", "forward", "backward"));
  const auto& phases = result.memory_phases;
  EXPECT_EQ(phases[0].memory.allocated_bytes, 1000);
  EXPECT_EQ(phases[1].memory.allocated_bytes, 3000) << "after the last micro-batch's";
  EXPECT_EQ(phases[1].memory.peak_allocated_bytes, 4000) << "of the first micro-batch";
  EXPECT_EQ(phases[2].memory.allocated_bytes, 1000);
  EXPECT_EQ(phases[2].memory.peak_allocated_bytes, 4000);
  EXPECT_EQ(cpu_device().memory().allocated_bytes, 0) << "it does not count any more";
}

TEST(RunObserver, SeesNothingWithoutAStepToLookAt) {
  RunObserver observer({}, cpu_device(), {}, {});
  const PhaseScope setup(Phase::setup);
  const at::Tensor model = tensor_of(1000);
  EXPECT_EQ(cpu_device().memory().allocated_bytes, 0);
  RankResult result;
  observer.add_to(result, 0);
  EXPECT_TRUE(result.memory_phases.empty());
}

/// A device whose allocator has a history: the phases that began.
class RecordingDevice final : public Device {
 public:
  class History final : public MemoryHistory {
   public:
    void begin(Phase phase) override { text_ += std::string(to_string(phase)) + "\n"; }
    void end(Phase) override {}
    std::string pickle() override { return text_; }

   private:
    std::string text_;
  };

  c10::Device torch_device() const override { return cpu_device().torch_device(); }
  Mark mark() override { return cpu_device().mark(); }
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronize() override {}
  std::unique_ptr<MemoryHistory> record_memory() override { return std::make_unique<History>(); }
};

TEST(RunObserver, WritesTheHistoryUpToItsStep) {
  const TemporaryFolder folder;
  RecordingDevice device;
  const auto run = [&device](const std::filesystem::path& to) {
    RunObserver observer({.memory_snapshot = true}, device, 0, to);
    { const PhaseScope setup(Phase::setup); }
    for (std::int64_t index = 0; index < 3; ++index) {
      observer.before_step(index);
      { const PhaseScope step(Phase::step, index); }
      observer.after_step(index);
    }
    RankResult result;
    observer.add_to(result, 0);
    return result.memory_snapshot;
  };
  const auto target = folder.path() / "profile/01";
  EXPECT_EQ(run(target), "memory_rank0.pickle");
  EXPECT_EQ(read_file(target / "memory_rank0.pickle"), "setup\nstep\n");
  EXPECT_EQ(run({}), "") << "another rank than the one that has a folder";
  folder.write("in the way", "a file");
  EXPECT_THROW(run(folder.path() / "in the way"), Error);
}

/// A GPU's allocator, as PyTorch hears of it: blocks that nobody may read.
class ReportingDevice final : public Device {
 public:
  c10::Device torch_device() const override { return {c10::kCUDA, 1}; }
  Mark mark() override { return cpu_device().mark(); }
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronize() override {}
  DeviceMemory memory() const override {
    return {.allocated_bytes = allocated_, .reserved_bytes = 100'000};
  }
  std::int64_t used_memory() const override { return 700'000; }

  void allocate(std::uintptr_t block, std::int64_t bytes) { report(block, bytes, 1); }
  void release(std::uintptr_t block, std::int64_t bytes) { report(block, -bytes, 1); }
  void report(std::uintptr_t block, std::int64_t bytes, c10::DeviceIndex device) {
    if (device == 1) allocated_ += bytes;
    c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(block), bytes, 0, 0,
                                     {c10::kCUDA, device});
  }

 private:
  std::int64_t allocated_ = 0;
};

/// Two steps on the device; the second one is observed.
RankResult run_reporting(const std::filesystem::path& folder) {
  ReportingDevice device;
  RunObserver observer({.memory = true}, device, 1, folder);
  {
    const PhaseScope setup(Phase::setup);
    const MemoryScope scope(MemoryCategory::parameters);
    device.allocate(0x1000, 40'000);
    const at::Tensor ids = tensor_of(123'456);  // the host's
  }
  for (std::int64_t index = 0; index < 3; ++index) {
    observer.before_step(index);
    {
      const PhaseScope step(Phase::step, index);
      {
        const PhaseScope forward(Phase::forward);
        const MemoryLabel unit("layers", 0);
        const MemoryLabel operation("w1w3");
        device.allocate(0x20000, 5000);
        device.allocate(0x30000, 2000);
        device.report(0x30000, 900'000, 0);  // another GPU's
        device.release(0x30000, 2000);
      }
      const PhaseScope backward(Phase::backward);
      device.allocate(0x40000, 6000);
      device.release(0x20000, 5000);
      // On a thread that nobody hears.
      std::thread([&] { device.release(0x40000, 6000); }).join();
      device.allocate(0x40000, 300);
      device.release(0x40000, 300);
    }
    observer.after_step(index);
  }
  RankResult result;
  observer.add_to(result, 512);
  return result;
}

TEST(RunObserver, RecordsTheBlocksThatADeviceReports) {
  const TemporaryFolder folder;
  const RankResult result = run_reporting(folder.path());
  const PeakMemory& peak = result.memory_peak;
  const auto of = [](const PeakMemory::Parts& parts, MemoryCategory category) {
    return parts[static_cast<std::size_t>(category)].second;
  };
  EXPECT_EQ(peak.phase, "backward");
  EXPECT_EQ(of(peak.tensors, MemoryCategory::parameters), 40'000);
  EXPECT_EQ(of(peak.tensors, MemoryCategory::saved), 5000);
  EXPECT_EQ(of(peak.tensors, MemoryCategory::backward), 6000);
  EXPECT_EQ(peak.resident_bytes, 700'000) << "used, by the driver";
  EXPECT_EQ(of(peak.tensors, MemoryCategory::library), 0);
  EXPECT_EQ(of(peak.categories, MemoryCategory::library), 700'000 - 51'000) << "cache and context";
  EXPECT_EQ(peak.unexplained_bytes, 0) << "the block came again, so it had been released";
  ASSERT_EQ(peak.saved.size(), 1U);
  EXPECT_EQ(peak.saved[0].first, "w1w3");

  EXPECT_FALSE(std::filesystem::exists(folder.path() / "memory_rank0.pickle"));
  const std::string csv = read_file(folder.path() / "memory.csv");
  EXPECT_THAT(csv, HasSubstr("\nlibrary: reserved by the allocator, in no tensor,"));
  EXPECT_THAT(csv, HasSubstr("\nlibrary: used beside the allocator"));
  EXPECT_THAT(csv, Not(HasSubstr("malloc")));
  EXPECT_THAT(read_file(folder.path() / "memory.svg"), HasSubstr("used 0.7"));
  EXPECT_THAT(read_file(folder.path() / "allocations.csv"), HasSubstr("layers.0,w1w3"));
  const auto memory = json::parse(read_file(folder.path() / "memory.json"));
  EXPECT_EQ(memory["moments"].back()["resident"], 700'000);
  EXPECT_EQ(memory["events"].size(), 8U);
}

}  // namespace
}  // namespace ddprun::test
