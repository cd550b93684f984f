// The ranges that a profiler is given: a library that NVTX loads in place of a profiler notes them.
#include "ddprun/measure/profiler_range.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/measure/phase.h"
#include "support/ddprun_command.h"
#include "support/nvtx_record.h"
#include "support/thread_ranks.h"

namespace ddprun::test {
namespace {

/// NVTX looks for its profiler at the first range of a process, which may be of another suite.
class Recorder : public testing::Environment {
 public:
  void SetUp() override {
    folder_.emplace();
    ::setenv("NVTX_INJECTION64_PATH", kNvtxRecorder, 1);
    ::setenv("NVTX_RECORDER_FILE", file().c_str(), 1);
  }
  void TearDown() override { folder_.reset(); }
  std::string file() const { return folder_->path() / "record"; }

 private:
  std::optional<TemporaryFolder> folder_;
};
auto* const kRecorder = new Recorder;
const testing::Environment* const kAdded = testing::AddGlobalTestEnvironment(kRecorder);

class Ranges : public testing::Test {
 protected:
  void SetUp() override { before_ = read_nvtx_record(kRecorder->file()).size(); }

  /// What this test made.
  std::vector<NvtxEvent> events() const {
    auto all = read_nvtx_record(kRecorder->file());
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before_));
    return all;
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const NvtxEvent& event : events()) out.push_back(event.text());
    return out;
  }

 private:
  std::size_t before_ = 0;
};

TEST_F(Ranges, OfAThreadNest) {
  {
    const ProfilerRange outer("outer", 7);
    const ProfilerRange inner("inner");
  }
  EXPECT_THAT(lines(), ElementsAre("push outer 7", "push inner 0", "pop", "pop"));
}

TEST_F(Ranges, ThatOverlapEndWhereTheyEnd) {
  auto first = std::make_unique<ProfilerSpan>("all_reduce", "bucket 0", 4096);
  auto second = std::make_unique<ProfilerSpan>("all_reduce", "bucket 1", 64);
  std::thread([&first] { first.reset(); }).join();
  second.reset();
  ASSERT_THAT(lines(),
              ElementsAre("start all_reduce: bucket 0 4096", "start all_reduce: bucket 1 64",
                          "end all_reduce: bucket 0", "end all_reduce: bucket 1"));
  EXPECT_NE(events()[2].thread, events()[0].thread);
}

/// Notes what it hears.
class Listener : public PhaseListener {
 public:
  void begin(Phase phase) override { heard.push_back(std::string("begin ") + to_string(phase)); }
  void end(Phase phase) override { heard.push_back(std::string("end ") + to_string(phase)); }
  std::vector<std::string> heard;
};

TEST_F(Ranges, PhasesAreRangesAndReachTheListenersOfTheirThread) {
  Listener first, second;
  {
    const PhaseSubscription one(first);
    {
      const PhaseSubscription two(second);
      const PhaseScope step(Phase::step, 3);
      const PhaseScope forward(Phase::forward);
      std::thread([] { const PhaseScope elsewhere(Phase::backward); }).join();
    }
    const PhaseScope optimizer(Phase::optimizer);
  }
  const PhaseScope unheard(Phase::setup);
  EXPECT_THAT(second.heard, ElementsAre("begin step", "begin forward", "end forward", "end step"));
  EXPECT_THAT(first.heard, ElementsAre("begin step", "begin forward", "end forward", "end step",
                                       "begin optimizer", "end optimizer"));
  EXPECT_THAT(lines(), ElementsAre("push step 3", "push forward 0", "push backward 0", "pop", "pop",
                                   "pop", "push optimizer 0", "pop", "push setup 0"));
}

TEST_F(Ranges, OfACollectiveEndsWithItsWait) {
  std::size_t before_wait = 0;
  run_ranks(2, [&](ProcessGroup& group) {
    const at::Tensor tensor = at::ones({1000});
    Work work = group.all_reduce(tensor, ReduceOp::sum, "bucket 0");
    group.barrier();  // so the all-reduce is done on both
    if (group.rank() == 0) before_wait = events().size();
    group.barrier();
    work.wait();
  });
  std::vector<std::size_t> starts, ends;
  const auto all = events();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].text() == "start all_reduce: bucket 0 4000") starts.push_back(i);
    if (all[i].text() == "end all_reduce: bucket 0") ends.push_back(i);
  }
  ASSERT_EQ(starts.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_LT(starts[1], before_wait);
  EXPECT_GE(ends[0], before_wait);
}

TEST_F(Ranges, OfACollectiveThatNobodyWaitsForEndsWithIt) {
  run_ranks(2, [this](ProcessGroup& group) {
    const at::Tensor tensor = at::ones({1000});
    group.all_reduce(tensor, ReduceOp::sum, "dropped");
    // Not by way of its record, which is still there.
    EXPECT_TRUE(eventually(30, [this] {
      const auto all = lines();
      return std::count(all.begin(), all.end(), "end all_reduce: dropped") == 2;
    }));
    group.barrier();
  });
}

}  // namespace
}  // namespace ddprun::test
