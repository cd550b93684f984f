// Texts that ranks tell one another through a store while they meet.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace ddprun {

/// Every rank's text, in rank order; blocks until all are there, and on rank 0 until all have read
/// them. `round`: a name that is used once in this store. Throws c10d's error if a rank does not
/// come.
std::vector<std::string> exchange(c10d::Store& store, const std::string& round, int rank, int size,
                                  const std::string& text, std::chrono::milliseconds timeout);

}  // namespace ddprun
