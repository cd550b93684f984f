// Texts of any length that ranks exchange through a store.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace ddprun {

/// Every rank's text, in rank order, on every rank: torch.distributed.all_gather_object for texts,
/// without a backend. Blocks until all texts are there, and on rank 0 until all ranks have read
/// them, because rank 0 may serve the store and end right after. Leaves no key in the store.
/// `round`, `members`, errors: as of StoreRound.
std::vector<std::string> all_gather_object(c10d::Store& store, const std::string& round, int rank,
                                           int size, const std::string& text,
                                           std::chrono::milliseconds timeout,
                                           const std::vector<int>& members = {});

/// The same, for rank 0 alone: the others get an empty list, and do not wait.
std::vector<std::string> gather_object(c10d::Store& store, const std::string& round, int rank,
                                       int size, const std::string& text,
                                       std::chrono::milliseconds timeout);

}  // namespace ddprun
