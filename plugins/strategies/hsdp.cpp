// Strategy "hsdp": what "fsdp" does, within groups of ranks that each have everything (Zhao et al.,
// VLDB 2023, section 3.2.2: hybrid sharding).
#include <iterator>
#include <optional>
#include <vector>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/unit_sharding.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// The ranks of a group, by default those of a host, keep a slice of each unit each. Parameters and
/// gradients travel within the group, in each micro-batch. Between groups, the ranks that keep the
/// same slices all-reduce the mean of their gradients, once a step.
class Hsdp final : public UnitSharding {
 public:
  void declare_options(Options& options) override {
    options.option("shard_ranks", &shard_ranks_,
                   "ranks that hold everything together; 0: those of a host", {.min = 0});
    UnitSharding::declare_options(options);
  }

  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    if (shard_ranks_ > 0 && run.world_size % shard_ranks_ != 0) {
      return Refusal{.reason = "its groups must have the same number of ranks",
                     .expected = "a world.size that is a multiple of shard_ranks, " +
                                 std::to_string(shard_ranks_)};
    }
    if (run.backend == BackendKind::mpi) {
      return Refusal{.reason = "mpi joins all ranks, and no groups of some of them",
                     .expected = "world.backend auto, gloo, shm or hierarchical"};
    }
    return UnitSharding::unsupported(run);
  }

  Plan plan(const ParameterLayout& layout, int rank) const override {
    const int shards = shards_of(layout);
    Plan plan;
    plan_units(plan, layout);
    plan.holding.shards = shards;
    if (layout.ranks() % shards != 0) return plan;  // is refused, on all ranks
    for (const Unit& unit : layout.units()) {
      const Range own = layout.slice(unit.range, rank % shards, shards);
      plan_reduce_scatter(plan, layout, unit.range, PlannedIn::each_micro_batch);
      if (shards < layout.ranks()) {
        plan.add(CollectiveKind::all_reduce, layout.parameter_bytes(own));  // the mean
      }
      plan.holding.owned.push_back(own);
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    begin(context, [this](int unit) { send_between_groups(unit); });
    between_.resize(context.layout().units().size());
    const int shards = shards_of(context.layout());
    std::vector<int> alike;  // the ranks with this rank's slices
    for (int rank = context.group().rank() % shards; rank < context.group().size();
         rank += shards) {
      alike.push_back(rank);
    }
    if (alike.size() > 1) replicas_ = &slices(context).subgroup(alike);
  }

  void finish_backward() override {
    // One unit behind, so that something travels while another is updated.
    gradients().finish([this](int unit) {
      if (unit + 1 < std::ssize(between_)) finish_unit(unit + 1);
    });
    finish_unit(0);
  }

 private:
  int shards_of(const ParameterLayout& layout) const {
    return shard_ranks_ == 0 ? layout.ranks_per_host() : static_cast<int>(shard_ranks_);
  }

  void finish_unit(int unit) {
    between_[unit].wait();
    context_->range_ready(own(unit));
  }

  /// The group's mean of a micro-batch is there.
  void send_between_groups(int unit) {
    if (replicas_ == nullptr || !last_micro_batch()) return;
    between_[unit] = replicas_->all_reduce(slices(*context_).mean(own(unit)), ReduceOp::avg,
                                           context_->layout().units()[unit].name);
  }

  std::int64_t shard_ranks_ = 0;
  RankGroup* replicas_ = nullptr;  // null: there is one group
  std::vector<Work> between_;      // by unit, of this step
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Hsdp, "hsdp", "fsdp within groups of ranks, all-reduces between them",
                "1.2")
