// Several ranks on one GPU: what makes NCCL take them for ranks of several hosts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ddprun/comm/rendezvous.h"
#include "ddprun/config/world_config.h"

namespace ddprun {

/// NCCL refuses two ranks of one host on one device. With a host id of its own each rank seems to
/// be alone on a host, so NCCL joins them by its socket transport, over loopback. (NCCL 2.28:
/// misc/utils.cc getHostHash, init.cc "Duplicate GPU detected", misc/socket.cc findInterfaces.)
std::vector<std::pair<std::string, std::string>> emulation_variables(int rank);

/// Throws ConfigError if the environment contradicts emulation_variables(): names the variable.
/// `where`: of the option in the file.
void check_emulation_environment(const std::string& where);

/// The device of this rank: with `emulate_ranks_on_one_gpu` the first one, after the variables are
/// set in this process. Throws Error; ConfigError if the ranks are on several hosts, or if an
/// earlier run in this process had it otherwise (NCCL keeps its host id).
std::shared_ptr<Device> open_rank_device(const WorldConfig& world, const RankInfo& info);

}  // namespace ddprun
