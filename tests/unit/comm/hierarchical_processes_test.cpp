// The hierarchical backend between real processes on emulated hosts: peers that are killed or late,
// on the same host and on another.
#include <ATen/Functions.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "ddprun/base/clock.h"
#include "support/matchers.h"
#include "support/process_ranks.h"

namespace ddprun {
namespace {

using test::expect_comm_error;

constexpr int kLocalSize = 2;

/// Joins as one of hosts of two ranks. With an interface: the loopback address alone would be
/// refused between hosts.
std::unique_ptr<ProcessGroup> join(const RankInfo& info, double timeout_s = 30) {
  RankInfo place = info;
  place.local_rank = info.rank % kLocalSize;
  place.local_size = kLocalSize;
  return connect(place,
                 {.backend = BackendKind::hierarchical, .interface = "lo", .timeout_s = timeout_s},
                 "run", "host " + std::to_string(info.rank / kLocalSize));
}

TEST(HierarchicalProcesses, MeetReduceAndLeave) {
  const auto ends = test::run_process_ranks(6, [](const RankInfo& info) {
    const auto group = join(info);
    for (const at::Tensor& tensor :
         {group->allocate(1'000'001, at::kFloat), at::empty({1'000'001}, at::kFloat)}) {
      tensor.fill_(info.rank + 1.0);
      group->all_reduce(tensor, ReduceOp::sum, "x").wait();
      if (!at::equal(tensor, at::full({1'000'001}, 21.0F))) return 1;
    }
    group->shutdown();
    return 0;
  });
  EXPECT_THAT(ends, Each(0)) << "exit status, or minus the signal";
}

TEST(HierarchicalProcesses, AKilledPeerIsNoticedAtOnceAndNamed) {
  const auto ends = test::run_process_ranks(6, [](const RankInfo& info) {
    const auto group = join(info);
    const at::Tensor tensor = group->allocate(1'000'000, at::kFloat);
    group->all_reduce(tensor, ReduceOp::sum, "first").wait();
    if (info.rank == 1) ::raise(SIGKILL);
    std::vector<std::string> parts = {"all_reduce 'layers.0.w'", "another rank ended"};
    if (info.rank == 0) parts.push_back("rank 1 is gone");                     // its neighbour
    if (info.rank == 3) parts.push_back("between hosts, with rank 1 or 5: ");  // its peers
    if (info.rank == 5) parts.push_back("between hosts, with rank 1 or 3: ");
    const std::int64_t begin = now_ns();
    const int status = expect_comm_error(
        [&] { group->all_reduce(tensor, ReduceOp::sum, "layers.0.w").wait(); }, parts);
    return to_ms(now_ns() - begin) < 10'000 ? status : 3;
  });
  EXPECT_THAT(ends, ElementsAre(0, -SIGKILL, 0, 0, 0, 0));
}

TEST(HierarchicalProcesses, ALateRankIsATimeoutThatNamesIt) {
  const auto ends = test::run_ranks_in_time(4, [](const RankInfo& info, int limit_s) {
    const auto group = join(info, limit_s);
    const at::Tensor tensor = at::zeros({1000});
    group->all_reduce(tensor, ReduceOp::sum, "first").wait();
    if (info.rank == 1) {  // does not call it; is there until the others have given up
      std::this_thread::sleep_for(std::chrono::seconds(4 * limit_s));
      return 0;
    }
    std::vector<std::string> parts;
    const std::string after = "timed out after " + std::to_string(limit_s) + "000 ms";
    if (info.rank == 0) parts = {"rank 1 did not come: " + after, "timeout_s"};
    if (info.rank == 3) parts = {"between hosts, with rank 1: ", "imed out", "timeout_s"};
    const int status =
        expect_comm_error([&] { group->all_reduce(tensor, ReduceOp::sum, "x").wait(); }, parts);
    std::this_thread::sleep_for(
        std::chrono::seconds(limit_s));  // leaving would be noticed as an end
    return status;
  });
  EXPECT_THAT(ends, ElementsAre(0, 0, 0, 0));
}

TEST(HierarchicalProcesses, LeavingWithCollectivesUnderWayFailsTheOthersOnly) {
  const auto ends = test::run_process_ranks(4, [](const RankInfo& info) {
    // The leader of the other host, whose gloo may begin to send just when its peer leaves: gloo
    // then forgets that send, and ends by its limit of time.
    std::vector<std::string> parts;
    if (info.rank != 0) parts.emplace_back("another rank ended");
    return test::leave_under_way(join(info, 10), 2, parts);
  });
  EXPECT_THAT(ends, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace ddprun
