// The gloo backend: PyTorch's own, with a reduce-scatter that sends no more than it must.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/comm/comm_config.h"

namespace ddprun {

/// Connects this rank to all others through `store`. Listens on config.interface, or on `address`
/// (this host's) if that is empty. `where`: what errors call this rank. Throws CommError.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    const std::string& where,
                                                    const std::string& address,
                                                    const CommConfig& config);

/// As std::chrono wants it; at least one millisecond.
std::chrono::milliseconds to_milliseconds(double seconds);

}  // namespace ddprun
