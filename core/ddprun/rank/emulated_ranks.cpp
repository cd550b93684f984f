// NCCL's variables for ranks that share a GPU, and the device that they share.
#include "ddprun/rank/emulated_ranks.h"

#include <stdlib.h>

#include <optional>

#include "ddprun/base/error.h"
#include "ddprun/device/device_library.h"

namespace ddprun {

namespace {

constexpr const char* kOption = "world.emulate_ranks_on_one_gpu";

/// NCCL reads its host id once in a process, and a launch that was joined runs all of a batch in
/// one.
void require_same_as_before(bool emulated) {
  static std::optional<bool> before;
  if (before.value_or(emulated) != emulated) {
    throw ConfigError(
        {.what = "ranks of a joined launch cannot share a GPU in one run and have "
                 "GPUs of their own in another",
         .where = kOption,
         .got = emulated ? "true, after a run with false" : "false, after a run with true",
         .expected = "one of the two in all runs of a launch",
         .hint = "NCCL keeps its host id until a process ends: launch the runs apart"});
  }
  before = emulated;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> emulation_variables(int rank) {
  return {{"NCCL_HOSTID", "ddprun-emulated-" + std::to_string(rank)},
          {"NCCL_NET", "Socket"},         // no InfiniBand, no plugin
          {"NCCL_SOCKET_IFNAME", "=lo"},  // exactly that interface
          {"NCCL_MNNVL_ENABLE", "0"}};    // nor one NVLink domain of several hosts
}

void check_emulation_environment(const std::string& where) {
  for (const auto& [name, value] : emulation_variables(0)) {
    const char* set = ::getenv(name.c_str());
    if (set == nullptr || set == value) continue;
    if (name == "NCCL_SOCKET_IFNAME") continue;  // any interface of this host will do
    throw ConfigError({.what = "a variable contradicts ranks that share a GPU",
                       .where = where,
                       .got = name + "=" + set,
                       .expected = name == "NCCL_HOSTID" ? "not set: each rank gets its own"
                                                         : "not set, or " + name + "=" + value,
                       .hint = "unset it, or remove emulate_ranks_on_one_gpu"});
  }
}

std::shared_ptr<Device> open_rank_device(const WorldConfig& world, const RankInfo& info) {
  if (world.device == DeviceKind::cpu) return open_device(world.device, info.local_rank);
  const bool emulated = world.emulated();
  require_same_as_before(emulated);
  if (!emulated) return open_device(world.device, info.local_rank);
  if (info.local_size < info.world_size) {
    throw ConfigError({.what = "ranks that share a GPU must be on one host",
                       .where = kOption,
                       .got = "this host has " + std::to_string(info.local_size) + " of " +
                              std::to_string(info.world_size) + " ranks",
                       .expected = "all of them",
                       .hint = "launch them on one host, or remove the option"});
  }
  for (const auto& [name, value] : emulation_variables(info.rank)) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/name != "NCCL_SOCKET_IFNAME");
  }
  return open_device(world.device, 0);
}

}  // namespace ddprun
