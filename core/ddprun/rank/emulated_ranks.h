// Several ranks on one GPU, by making NCCL take them for ranks of several hosts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/config/world_config.h"

namespace ddprun {

/// The environment variables of emulation. NCCL refuses two ranks of one host on one device. With a
/// host id of its own, each rank seems to be alone on a host, so NCCL joins the ranks by its socket
/// transport, over loopback. (NCCL 2.28: misc/utils.cc getHostHash, init.cc "Duplicate GPU
/// detected", misc/socket.cc findInterfaces.)
std::vector<std::pair<std::string, std::string>> emulation_variables(int rank);

/// Throws ConfigError naming the variable if the environment contradicts emulation_variables().
/// `where` is the place of the option in the file.
void check_emulation_environment(const std::string& where);

/// Opens the device of this rank. With `emulate_ranks_on_one_gpu` it sets the variables in this
/// process and takes the first device. Throws Error. Throws ConfigError if the ranks are on several
/// hosts, or if an earlier run in this process had the option otherwise (NCCL keeps its host id).
std::shared_ptr<Device> open_rank_device(const WorldConfig& world, const RankInfo& info);

}  // namespace ddprun
