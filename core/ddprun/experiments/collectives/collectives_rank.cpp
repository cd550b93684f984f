// What a collective's experiment says, what is refused, and what a rank does.
#include <fmt/format.h>

#include "ddprun/base/machine_memory.h"
#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/experiments/collectives/collective_trial.h"
#include "ddprun/experiments/collectives/collectives.h"
#include "ddprun/rank/connected_rank.h"

namespace ddprun {

namespace {

/// Which backend `auto` takes is known when the ranks have met, too late to refuse anything.
void check_backend_is_named(const Experiment& e) {
  if (e.world.comm.backend != BackendKind::automatic) return;
  refuse(e, "world.backend",
         {.what = "experiment collectives measures a backend that is named",
          .got = "world.backend auto",
          .expected = "gloo, shm, hierarchical, mpi or nccl",
          .hint = "world: {size: 2, backend: gloo}; a sweep over world.backend compares "
                  "several"});
}

void check_meaning(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  const CollectivesConfig defaults;
  const std::string neighbour = said("collectives.collective", name_of(c.collective));
  refuse_unused(e, !c.reduces() && c.op != defaults.op, "collectives.op", neighbour);
  if (c.collective != CollectiveKind::barrier) return;
  refuse_unused(e, c.bytes != defaults.bytes, "collectives.bytes", neighbour);
  refuse_unused(e, c.dtype != defaults.dtype, "collectives.dtype", neighbour);
  refuse_unused(e, c.in_place != defaults.in_place, "collectives.in_place", neighbour);
  refuse_unused(e, c.memory != defaults.memory, "collectives.memory", neighbour);
}

void check_size(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  if (c.collective == CollectiveKind::barrier || c.elements(e.world.size) > 0) return;
  const std::int64_t least = bytes_of(c.dtype) * (c.slices() ? e.world.size : 1);
  refuse(e, "collectives.bytes",
         {.what = "collectives.bytes has no room for an element of each rank",
          .got = fmt::format("{} bytes of {}", c.bytes, name_of(c.dtype)),
          .expected = fmt::format("at least {}", least),
          .hint = "raise it"});
}

void check_support(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  const BackendKind backend = e.world.comm.backend;
  const std::string lacks = backend_lacks(backend, c.collective, scalar_type(c.dtype), c.op);
  if (lacks.empty()) return;
  refuse(
      e, "collectives.dtype",
      {.what = fmt::format("backend {} has {}", name_of(backend), lacks),
       .got = fmt::format("{} of {} by {}", name_of(c.collective), name_of(c.dtype), name_of(c.op)),
       .expected = "a type and an operation that the backend has",
       .hint = "docs/configuration.md lists what each backend reduces"});
}

void check_exactness(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  if (c.collective == CollectiveKind::barrier || pattern_levels(c, e.world.size) > 0) return;
  refuse(e, "collectives.dtype",
         {.what = "the data could not be verified: the ranks' sum would be rounded",
          .got = fmt::format("{} by {} on {} ranks", name_of(c.dtype), name_of(c.op), e.world.size),
          .expected = "a type in which sums of small integers are exact",
          .hint = "fewer ranks, or float32"});
}

void check_memory(const Experiment& e, std::int64_t local_ranks) {
  if (!e.world.memory_check) return;
  const std::int64_t each = e.as<CollectivesConfig>().buffer_bytes(e.world.size);
  refuse_above(e, "collectives.bytes", {local_ranks, static_cast<double>(each), "of buffers"},
               static_cast<double>(available_memory()),
               {.what = "the buffers of the ranks exceed this machine's free memory",
                .hint = "smaller collectives.bytes, or fewer ranks"});
}

class CollectivesKind final : public Collectives {
 public:
  CollectivesKind()
      : Collectives({.own = CollectivesConfig(),
                     .sections = {world_section(),
                                  own_section<CollectivesConfig>(
                                      "collectives", "which collective is measured, and on what"),
                                  repeat_section(), output_section()}}) {}

  void check(const Experiment& experiment) const override {
    check_backend_is_named(experiment);
    check_meaning(experiment);
    check_size(experiment);
    check_support(experiment);
    check_exactness(experiment);
  }

  std::optional<Account> check_machine(const Experiment& experiment, const PluginRegistry&,
                                       std::int64_t local_ranks) const override {
    if (experiment.world.device == DeviceKind::cpu) check_memory(experiment, local_ranks);
    return {};
  }

  nlohmann::json work(const Experiment& experiment, const PluginRegistry&) const override {
    const auto& c = experiment.as<CollectivesConfig>();
    const std::int64_t elements = c.elements(experiment.world.size);
    return {{"bytes", elements * bytes_of(c.dtype)},
            {"count", c.slices() ? elements / experiment.world.size : elements}};
  }

  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry&,
                                    const RunContext& context) const override {
    ConnectedRank rank(experiment, context);
    rank.connect();
    {
      const auto trial = make_collective_trial(experiment.as<CollectivesConfig>(), rank.group());
      measure_trial(
          *trial, rank.group(), experiment.repeat,
          [&](const Sample& sample) { rank.sample_done(sample); }, rank.result());
    }
    for (Sample& sample : rank.result().samples) {
      sample[ranks_per_core] =
          static_cast<double>(context.info.local_size) / rank.affinity().host_cores;
    }
    return rank.finish();
  }
};

}  // namespace

const Collectives& collectives() {
  static const CollectivesKind kind;
  return kind;
}

}  // namespace ddprun
