// The shm backend between real processes: peers that are killed, hang or leave, and what they leave
// behind.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "ddprun/base/clock.h"
#include "support/matchers.h"
#include "support/process_ranks.h"

namespace ddprun {
namespace {

using test::expect_comm_error;
using test::run_process_ranks;

CommConfig shm(double timeout_s = 30) {
  return {.backend = BackendKind::shm, .timeout_s = timeout_s};
}

std::set<std::string> files_of_shared_memory() {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    files.insert(entry.path().string());
  }
  return files;
}

/// Bytes of files in memory that count as this process's.
std::int64_t resident_shared_bytes() {
  std::ifstream in("/proc/self/status");
  for (std::string key; in >> key; std::getline(in, key)) {
    std::int64_t kib = 0;
    if (key == "RssShmem:" && in >> kib) return kib * 1024;
  }
  return -1;
}

TEST(ShmProcesses, ABroadcastLeavesThePeersMemoryToThePeer) {
  const auto body = [](const RankInfo& info) {
    constexpr std::int64_t kElements = 8'000'000;
    const auto group = connect(info, shm(), "run");
    const at::Tensor tensor = group->allocate(kElements, at::kFloat);
    const std::int64_t before = resident_shared_bytes();
    if (before < 4 * kElements) return 1;  // this rank's own
    for (const float value : {1.0F, 2.0F}) {
      if (info.rank == 1) tensor.fill_(value);
      group->broadcast(tensor, 1, "x").wait();
      if (!at::equal(tensor, at::full({kElements}, value))) return 2;
    }
    const bool little = resident_shared_bytes() - before < kElements;
    group->shutdown();
    return little ? 0 : 3;
  };
  EXPECT_THAT(run_process_ranks(2, body), ElementsAre(0, 0));
}

TEST(ShmProcesses, AKilledPeerIsNoticedAtOnceAndNamed) {
  const auto before = files_of_shared_memory();
  const auto body = [](const RankInfo& info) {
    const auto group = connect(info, shm(), "run");
    const at::Tensor tensor = group->allocate(1'000'000, at::kFloat);
    group->all_reduce(tensor, ReduceOp::sum, "first").wait();
    if (info.rank == 1) ::raise(SIGKILL);
    const std::int64_t begin = now_ns();
    const int status =
        expect_comm_error([&] { group->all_reduce(tensor, ReduceOp::sum, "layers.0.w").wait(); },
                          {"rank " + std::to_string(info.rank) + " of 3, all_reduce 'layers.0.w'",
                           "rank 1 is gone", "another rank ended"});
    return to_ms(now_ns() - begin) < 5000 ? status : 3;
  };
  EXPECT_THAT(run_process_ranks(3, body), ElementsAre(0, -SIGKILL, 0));
  EXPECT_EQ(files_of_shared_memory(), before);
}

TEST(ShmProcesses, APeerKilledInTheMiddleOfTransfersIsNoticed) {
  const auto body = [](const RankInfo& info) {
    const auto group = connect(info, shm(), "run");
    const at::Tensor outside = at::zeros({3'000'000});
    if (info.rank == 0) {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::raise(SIGKILL);
      }).detach();
    }
    return expect_comm_error(
        [&] {
          while (true) group->all_reduce(outside, ReduceOp::sum, "x").wait();
        },
        {"rank 0 is gone"});
  };
  EXPECT_THAT(run_process_ranks(2, body), ElementsAre(-SIGKILL, 0));
}

TEST(ShmProcesses, AStoppedPeerIsATimeout) {
  const auto body = [](const RankInfo& info, int limit_s) {
    const auto group = connect(info, shm(limit_s), "run");
    const std::string peer = group->all_gather_object(std::to_string(::getpid()))[1];
    if (info.rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(60));  // is stopped, and killed
      return 1;
    }
    ::kill(std::stoi(peer), SIGSTOP);
    const at::Tensor tensor = at::zeros({10});
    const int status = expect_comm_error(
        [&] { group->all_reduce(tensor, ReduceOp::sum, "x", Await::next).wait(); },
        {"rank 1 did not come: timed out after " + std::to_string(limit_s) + "000 ms",
         "timeout_s"});
    ::kill(std::stoi(peer), SIGKILL);
    return status;
  };
  EXPECT_THAT(test::run_ranks_in_time(2, body), ElementsAre(0, -SIGKILL));
}

TEST(ShmProcesses, LeavingWithCollectivesUnderWayFailsThePeersOnly) {
  const auto body = [](const RankInfo& info) {
    return test::leave_under_way(connect(info, shm(), "run"), 0, {"rank 0 "});
  };
  EXPECT_THAT(run_process_ranks(2, body), ElementsAre(0, 0));
}

TEST(ShmProcesses, TwoRunsOnOneHostDoNotMeet) {
  const auto body = [](float value) {
    return [value](const RankInfo& info) {
      at::set_num_threads(1);  // spinning teams of threads would crowd the ranks out
      const auto group = connect(info, shm(), "run");
      const at::Tensor tensor = group->allocate(50'000, at::kFloat);
      for (int round = 0; round < 200; ++round) {
        tensor.fill_(value);
        group->all_reduce(tensor, ReduceOp::sum, "x").wait();
        if (!at::equal(tensor, at::full({50'000}, 2 * value))) return 1;
      }
      group->shutdown();
      return 0;
    };
  };
  const pid_t other = ::fork();
  if (other == 0) {
    ::_exit(run_process_ranks(2, body(3.0F)) == std::vector<int>{0, 0} ? 0 : 1);
  }
  EXPECT_THAT(run_process_ranks(2, body(5.0F)), ElementsAre(0, 0));
  EXPECT_EQ(test::wait_for_process(other), 0);
}

TEST(ShmProcesses, ShmAcrossHostsIsRefusedAndAutoTakesGloo) {
  // With an interface: the loopback address would be refused before the backend.
  const auto with_shm = [](const RankInfo& info) {
    RankInfo elsewhere = info;
    elsewhere.local_size = 1;  // as on two hosts
    CommConfig config{.backend = BackendKind::shm, .interface = "lo", .timeout_s = 30};
    try {
      connect(elsewhere, config, "run");
      return 1;
    } catch (const ConfigError& error) {
      if (error.text().got != "this host has 1 of 2 ranks") return 2;
    }
    return 0;
  };
  EXPECT_THAT(run_process_ranks(2, with_shm), ElementsAre(0, 0));
  const auto with_auto = [](const RankInfo& info) {
    RankInfo elsewhere = info;
    elsewhere.local_size = 1;
    const auto group = connect(elsewhere, {.interface = "lo", .timeout_s = 30}, "run");
    const bool right = group->backend_name() == "gloo" &&
                       group->backend_reason().starts_with("auto: the ranks are on several hosts");
    group->shutdown();
    return right ? 0 : 1;
  };
  EXPECT_THAT(run_process_ranks(2, with_auto), ElementsAre(0, 0));
}

}  // namespace
}  // namespace ddprun
