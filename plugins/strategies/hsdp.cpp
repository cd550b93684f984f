// Strategy "hsdp": what "fsdp" does, within groups of ranks that each have everything (Zhao et al.,
// VLDB 2023, section 3.2.2: hybrid sharding).
#include <iterator>
#include <optional>
#include <utility>
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
    Plan plan = UnitSharding::plan(layout, rank);
    if (shards(layout) == layout.ranks()) return plan;
    for (const Range& own : plan.holding.owned) {
      plan.add(CollectiveKind::all_reduce, layout.parameter_bytes(own));  // the mean
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    UnitSharding::setup(context);
    between_.resize(context.layout().units().size());
    const int of_a_group = shards(context.layout());
    std::vector<int> alike;  // the ranks with this rank's slices
    for (int rank = context.group().rank() % of_a_group; rank < context.group().size();
         rank += of_a_group) {
      alike.push_back(rank);
    }
    if (alike.size() > 1) replicas_ = &slices(context).subgroup(alike);
  }

  void finish_backward() override {
    UnitSharding::finish_backward();
    finish_reduced(0);
  }

 private:
  int shards(const ParameterLayout& layout) const override {
    return shard_ranks_ == 0 ? layout.ranks_per_host() : static_cast<int>(shard_ranks_);
  }

  /// The group's mean of a micro-batch is there.
  void arrived(int unit) override {
    if (replicas_ == nullptr || !last_micro_batch()) return;
    between_[unit] = replicas_->all_reduce(slices(*context_).mean(own(unit)), ReduceOp::avg,
                                           context_->layout().units()[unit].name);
  }

  /// One unit behind, so that something travels while another is updated.
  void finish_unit(int unit) override {
    if (unit + 1 < std::ssize(between_)) finish_reduced(unit + 1);
  }

  void finish_reduced(int unit) {
    std::exchange(between_[unit], {}).wait();  // once: a captured step waits for nothing older
    UnitSharding::finish_unit(unit);
  }

  std::int64_t shard_ranks_ = 0;
  RankGroup* replicas_ = nullptr;  // null: there is one group
  std::vector<Work> between_;      // by unit, of this step
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Hsdp, "hsdp", "fsdp within groups of ranks, all-reduces between them",
                "1.2")
