// Tries the backend that fits where the ranks are; what is asked for is taken or refused, never
// replaced.
#include "ddprun/comm/launch/backend_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/comm/backends/hierarchical_backend.h"
#include "ddprun/comm/backends/shm_backend.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/comm/store/all_gather_object.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/device/device.h"

namespace ddprun {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

/// RankGroup::subgroup() of the group at `place`.
std::unique_ptr<ProcessGroup> make_subgroup(const StorePtr& store, const GroupPlace& place,
                                            CommConfig config, Device& device,
                                            const std::vector<int>& ranks) {
  if (config.backend == BackendKind::mpi) {
    throw ConfigError({.what = "mpi joins all ranks, and no groups of some of them",
                       .where = "world.backend",
                       .got = "mpi",
                       .expected = "auto, gloo, shm or hierarchical",
                       .hint = "take another backend, or a strategy whose collectives are of all "
                               "ranks"});
  }
  // These may all be on one host, or all on different ones.
  if (config.backend == BackendKind::hierarchical) config.backend = BackendKind::automatic;
  const std::string names = list_text(ranks);
  const auto own = c10::make_intrusive<c10d::PrefixStore>("subgroup " + names, store);
  const auto me = std::ranges::find(ranks, place.rank) - ranks.begin();
  GroupPlace part = place;
  part.rank = static_cast<int>(me);
  part.world_size = static_cast<int>(ranks.size());
  part.claim.local_rank = part.claim.local_size = 0;
  part.members = ranks;
  const auto hosts =
      all_gather_object(*own, "the group of ranks " + names, part.rank, part.world_size,
                        place.claim.host, to_milliseconds(config.timeout_s), ranks);
  for (int rank = 0; rank < part.world_size; ++rank) {
    const bool known = !place.claim.host.empty();
    if (rank != part.rank && !(known && hosts[rank] == place.claim.host)) continue;
    if (rank < part.rank) ++part.claim.local_rank;
    ++part.claim.local_size;
  }
  return make_group(own, part, config, device);
}

/// Makes the group of one rank.
class Choice {
 public:
  Choice(const StorePtr& store, const GroupPlace& place, const CommConfig& config, Device& device)
      : store_(store), place_(place), config_(config), device_(device) {}

  std::unique_ptr<ProcessGroup> make() {
    if (auto own = device_.make_backend(part("device"), place_.rank, place_.world_size,
                                        to_milliseconds(config_.timeout_s))) {
      return group(std::move(own), 1,
                   asked_for(BackendKind::automatic) ? "auto: the ranks are on GPUs" : "asked for");
    }
    if (asked_for(BackendKind::gloo)) return gloo("asked for");
    if (asked_for(BackendKind::mpi)) {
      return group(load_mpi_library().make(place_.rank, place_.world_size, config_), 1,
                   "asked for");
    }
    const bool one_host = place_.claim.local_size >= place_.world_size;
    if (asked_for(BackendKind::shm) || (asked_for(BackendKind::automatic) && one_host))
      return shm();
    return hierarchical();
  }

 private:
  bool asked_for(BackendKind backend) const { return config_.backend == backend; }
  StorePtr part(const char* name) const {
    return c10::make_intrusive<c10d::PrefixStore>(name, store_);
  }
  std::unique_ptr<ProcessGroup> group(BackendPtr backend, std::int64_t workers,
                                      const std::string& reason, bool fell_back = false) const {
    GroupOrigin origin{.reason = reason,
                       .fell_back = fell_back,
                       .ranks_per_host = place_.claim.local_size,
                       .place = place_.group(),
                       .subgroup = [store = store_, place = place_, config = config_,
                                    &device = device_](const std::vector<int>& ranks) {
                         return make_subgroup(store, place, config, device, ranks);
                       }};
    return std::make_unique<ProcessGroup>(std::move(backend), part("group"),
                                          static_cast<int>(workers), std::move(origin), device_);
  }

  std::unique_ptr<ProcessGroup> gloo(const std::string& reason, bool fell_back = false) const {
    return group(make_gloo_backend(part("gloo"), place_.rank, place_.world_size, place_.text(),
                                   place_.address, config_),
                 config_.gloo_threads, reason, fell_back);
  }

  std::unique_ptr<ProcessGroup> shm() const {
    const std::string reason =
        asked_for(BackendKind::shm)
            ? "asked for"
            : fmt::format("auto: all ranks ({}) are on this host", place_.world_size);
    return in_shared_memory(1, reason, [this] {
      return c10::make_intrusive<ShmBackend>(
          part("shm"), ShmPlace{place_.rank, place_.world_size, place_.members},
          to_milliseconds(config_.timeout_s));
    });
  }

  std::unique_ptr<ProcessGroup> hierarchical() const {
    std::vector<HostClaim> ranks;
    for (const auto& text :
         all_gather_object(*store_, "hosts", place_.rank, place_.world_size, place_.claim.text(),
                           to_milliseconds(config_.timeout_s))) {
      ranks.push_back(HostClaim::of(text));
    }
    if (auto refusal = refuse_hosts(ranks)) {
      refusal->where = "world.backend";
      if (asked_for(BackendKind::hierarchical)) throw ConfigError(*refusal);
      return gloo(
          fmt::format("auto: the ranks are on several hosts; {}: {}", refusal->what, refusal->got));
    }
    const int local_size = place_.claim.local_size;
    const HostPlace host{place_.rank / local_size, place_.world_size / local_size,
                         place_.claim.local_rank, local_size};
    const std::string reason = asked_for(BackendKind::hierarchical)
                                   ? "asked for"
                                   : fmt::format("auto: {} of {} each", counted(host.hosts, "host"),
                                                 counted(host.local_size, "rank"));
    return in_shared_memory(config_.gloo_threads, reason, [this, &host] {
      return c10::make_intrusive<HierarchicalBackend>(part("hierarchical"), host, place_.address,
                                                      config_);
    });
  }

  /// The group over the backend that `make` gives; if shared memory cannot join the ranks of a
  /// host, which all ranks learn, gloo's where any backend will do.
  template <typename Make>
  std::unique_ptr<ProcessGroup> in_shared_memory(std::int64_t workers, const std::string& reason,
                                                 const Make& make) const {
    try {
      return group(make(), workers, reason);
    } catch (const ShmRefused& refused) {
      if (!asked_for(BackendKind::automatic)) {
        throw CommError({.what = "shared memory cannot join the ranks of this host",
                         .where = place_.text(),
                         .got = refused.what(),
                         .expected = "memory that the ranks of one host can map from one another",
                         .hint = "`backend: gloo` under `world:` goes over the network instead"});
      }
      const std::string instead = "auto: shared memory cannot join the ranks; ";
      if (place_.rank == 0) spdlog::warn("gloo joins the ranks ({}{})", instead, refused.what());
      return gloo(instead + refused.what(), /*fell_back=*/true);
    } catch (const std::exception& failure) {
      throw_comm_error(failure, {.what = "the ranks could not meet in shared memory",
                                 .where = place_.text(),
                                 .expected = "every rank of this host at the meeting"});
    }
  }

  const StorePtr& store_;
  const GroupPlace& place_;
  const CommConfig& config_;
  Device& device_;
};

}  // namespace

std::string GroupPlace::group() const {
  return members.empty() ? std::string() : fmt::format("of ranks {}: ", fmt::join(members, ", "));
}

void check_backend(const HostClaim& claim, int world_size, const CommConfig& config,
                   const Device& device) {
  const bool on_gpu = !device.torch_device().is_cpu();
  const BackendKind backend = config.backend;
  if (on_gpu && backend != BackendKind::automatic && backend != BackendKind::nccl) {
    throw ConfigError({.what = "ranks on GPUs are joined by NCCL",
                       .where = "world.backend",
                       .got = name_of(backend),
                       .expected = "auto or nccl",
                       .hint = "remove `backend:` under `world:`"});
  }
  if (!on_gpu && backend == BackendKind::nccl) {
    throw ConfigError({.what = "backend nccl joins ranks on GPUs",
                       .where = "world.backend",
                       .got = "device " + device.torch_device().str(),
                       .expected = "device cuda",
                       .hint = "on the CPU take auto, gloo, shm, hierarchical or mpi"});
  }
  if (backend == BackendKind::mpi) check_mpi("world.backend");
  if (backend == BackendKind::shm && claim.local_size < world_size) {
    throw ConfigError(
        {.what = "backend shm needs all ranks on one host",
         .where = "world.backend",
         .got = fmt::format("this host has {} of {} ranks", claim.local_size, world_size),
         .expected = "all ranks on one host",
         .hint = "take auto, hierarchical or gloo"});
  }
}

std::unique_ptr<ProcessGroup> make_group(const StorePtr& store, const GroupPlace& place,
                                         const CommConfig& config, Device& device) {
  check_backend(place.claim, place.world_size, config, device);
  return Choice(store, place, config, device).make();
}

}  // namespace ddprun
