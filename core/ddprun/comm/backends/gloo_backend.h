// The gloo backend: PyTorch's own, with a reduce-scatter that sends only the bytes that it must.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/comm/group/comm_config.h"

namespace ddprun {

/// Connects this rank to all others through `store`. Listens on config.interface or, if that is
/// empty, on `address`, which is this host's. Errors call this rank `where`. Throws CommError.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    const std::string& where,
                                                    const std::string& address,
                                                    const CommConfig& config);

/// Seconds in whole milliseconds, at least one.
std::chrono::milliseconds to_milliseconds(double seconds);

}  // namespace ddprun
