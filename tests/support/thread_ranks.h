// Ranks as threads of one process, which meet through an in-process store.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "ddprun/comm/rendezvous.h"
#include "ddprun/config/experiment.h"

namespace ddprun::test {

/// Runs `body` once per rank, each on a thread of its own with a connected group, which is shut
/// down in order after it. Rethrows the first rank's exception.
inline void run_ranks(int world_size, const std::function<void(ProcessGroup&)>& body,
                      const CommConfig& config = {.timeout_s = 30}) {
  const auto store = make_thread_store();
  std::vector<std::exception_ptr> errors(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto group = connect_thread(store, rank, world_size, config);
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

}  // namespace ddprun::test
