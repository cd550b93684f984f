// Ranks as threads of one process, which meet through an in-process store.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun::test {

/// Of one rank, which has its mean, or of ranks whose gradients are equal.
struct Alone : Strategy {
  void finish_backward() override {}
};

/// The precision that changes nothing. It holds nothing either, so ranks share it.
inline Precision& fp32() {
  static Precision precision;
  return precision;
}

/// Runs `body` once per rank, each on a thread of its own, with the group that `connect` returns.
/// Shuts the group down after `body`. Rethrows the exception of the first rank that has one.
inline void run_threads(int world_size,
                        const std::function<std::unique_ptr<ProcessGroup>(int rank)>& connect,
                        const std::function<void(ProcessGroup&)>& body) {
  std::vector<std::exception_ptr> errors(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto group = connect(rank);
        body(*group);
        group->shutdown();
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

inline void run_ranks(int world_size, const std::function<void(ProcessGroup&)>& body,
                      const CommConfig& config = {.timeout_s = 30}) {
  const auto store = make_thread_store();
  run_threads(
      world_size, [&](int rank) { return connect_thread(store, rank, world_size, config); }, body);
}

/// What `body` returns, of each rank.
template <class Body>
auto of_ranks(int world_size, const Body& body, const CommConfig& config = {.timeout_s = 30}) {
  std::vector<std::invoke_result_t<const Body&, ProcessGroup&>> out(world_size);
  run_ranks(
      world_size, [&](ProcessGroup& group) { out[group.rank()] = body(group); }, config);
  return out;
}

/// What a launcher tells rank `rank` if there are `hosts` hosts with `local_size` ranks each.
inline RankInfo rank_of_hosts(int hosts, int local_size, int rank) {
  RankInfo info;
  info.rank = rank;
  info.world_size = hosts * local_size;
  info.local_rank = rank % local_size;
  info.local_size = local_size;
  return info;
}

/// The same with ranks that seem to rendezvous to be on `hosts` hosts.
inline void run_hosts(int hosts, int local_size, const std::function<void(ProcessGroup&)>& body,
                      const CommConfig& config) {
  const auto store = make_thread_store();
  const auto connect = [&](int rank) {
    return connect_thread(store, rank_of_hosts(hosts, local_size, rank), config,
                          "host " + std::to_string(rank / local_size));
  };
  run_threads(hosts * local_size, connect, body);
}

}  // namespace ddprun::test
