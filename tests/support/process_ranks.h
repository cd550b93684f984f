// Plays the ranks of a run as forked processes, for tests of crashes, timeouts and exits.
#pragma once

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/comm/store/store_server.h"

namespace ddprun::test {

/// Waits for a rank's process. Returns its exit status, or minus the signal that killed it.
inline int wait_for_process(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// How a rank exits whose body throws, and one where an expectation of GoogleTest does not hold.
inline constexpr int kThrew = 99, kUnexpected = 98;

/// Forks one process for each rank. It calls `body` and exits with what that returns, or with
/// kThrew if it throws, or with kUnexpected where that would be 0. It exits through exit(), so
/// static destructors run. Returns how the processes ended, in rank order. The calling process must
/// not have used torch's threads.
inline std::vector<int> run_process_ranks(int world_size,
                                          const std::function<int(const RankInfo&)>& body) {
  std::vector<StoreSockets> sockets = make_store_sockets(world_size);
  std::vector<pid_t> pids;
  std::fflush(nullptr);
  for (int rank = 0; rank < world_size; ++rank) {
    RankInfo info;
    info.rank = info.local_rank = rank;
    info.world_size = info.local_size = world_size;
    info.sockets = std::make_shared<StoreSockets>(std::move(sockets[rank]));
    const pid_t pid = ::fork();
    if (pid == 0) {
      sockets.clear();
      int status = kThrew;
      try {
        status = body(info);
      } catch (const std::exception& failure) {
        std::fprintf(stderr, "rank %d: %s\n", rank, failure.what());
      }
      std::exit(status == 0 && testing::Test::HasFailure() ? kUnexpected : status);
    }
    pids.push_back(pid);
  }
  std::vector<int> ends;
  for (const pid_t pid : pids) ends.push_back(wait_for_process(pid));
  return ends;
}

/// The same for ranks that meet within a limit of time, 1 s: where one throws, as a busy machine
/// may need longer for that, they have twice as much.
inline std::vector<int> run_ranks_in_time(
    int world_size, const std::function<int(const RankInfo&, int limit_s)>& body) {
  std::vector<int> ends;
  for (int limit_s = 1; limit_s < 20; limit_s *= 2) {
    ends = run_process_ranks(world_size, [&](const RankInfo& info) { return body(info, limit_s); });
    if (std::ranges::count(ends, kThrew) == 0) break;
  }
  return ends;
}

/// The place of a rank as a launcher tells it: an address instead of connections, at which runs
/// follow one another.
inline RankInfo joined(const RankInfo& own, int port) {
  RankInfo info = own;
  info.launcher = "torchrun";
  info.sockets = nullptr;
  info.master_port = port;
  return info;
}

/// `call` must throw a CommError with these parts. Returns the exit status of the rank: 0 if it
/// does. If not, stderr names the part that does not match.
inline int expect_comm_error(const std::function<void()>& call,
                             const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const CommError& error) {
    const std::string text = error.what();
    for (const auto& part : parts) {
      if (text.find(part) != std::string::npos) continue;
      std::fprintf(stderr, "\"%s\" is not in: %s\n", part.c_str(), text.c_str());
      return 2;
    }
    return 0;
  }
  std::fprintf(stderr, "nothing thrown\n");
  return 1;
}

/// With ten all-reduces under way, rank `leaver` leaves as soon as it has two of them: most likely
/// in the middle of the others. Returns expect_comm_error() of the other ranks.
inline int leave_under_way(std::unique_ptr<ProcessGroup> group, int leaver,
                           const std::vector<std::string>& parts) {
  std::vector<at::Tensor> tensors;
  std::vector<Work> works;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back(at::zeros({1'000'000}));
    works.push_back(group->all_reduce(tensors.back(), ReduceOp::sum, "x"));
  }
  if (group->rank() == leaver) {
    works[1].wait();
    group.reset();
    return 0;
  }
  return expect_comm_error(
      [&] {
        for (auto& work : works) work.wait();
        group->barrier();
      },
      parts);
}

}  // namespace ddprun::test
