// Strategy "gossip": each rank averages its parameters with one other rank's in each step (Lian et
// al., NeurIPS 2017: decentralized SGD; Ying et al., NeurIPS 2021: one peer at a time).
#include <bit>
#include <vector>

#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/sharding.h"
#include "ddprun/plugin/state.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Each rank updates its parameters by its own gradients, then averages them with its peer's. In
/// step k that is the rank whose number differs in bit k mod log2 n (a hypercube), so after log2 n
/// steps each rank has a part of what every rank made. No step waits for more than one other rank.
class Gossip final : public Strategy {
 public:
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    const int ranks = run.world_size;
    if (ranks < 2 || !std::has_single_bit(static_cast<unsigned>(ranks))) {
      return Refusal{.reason = "in each step every rank averages with one other rank",
                     .expected = "a world.size that is a power of two, 2 or more"};
    }
    if (run.backend == BackendKind::mpi) {
      return Refusal{.reason = "mpi joins all ranks, and no groups of some of them",
                     .expected = "world.backend auto, gloo, shm or hierarchical"};
    }
    if (ranks == 2) return {};
    return refuse_captured_steps(run, "its peers take turns, and a captured step has one");
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    Plan plan{.agreement = Agreement::periodic};
    plan.add(CollectiveKind::all_reduce, layout.parameter_bytes(layout.all()), PlannedIn::update);
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    for (int bit = 1; bit < context.group().size(); bit *= 2) {
      const int rank = context.group().rank();
      pairs_.push_back(&slices(context).subgroup({rank & ~bit, rank | bit}));
    }
  }

  void finish_backward() override {}

  void update() override {
    context_->update_rest();
    const auto bit = steps_++ % std::ssize(pairs_);
    const Range all = context_->layout().all();
    pairs_[bit]->all_reduce(context_->parameters(all), ReduceOp::avg, "peer").wait();
    context_->parameters_changed(all);

    std::vector<double> weights(context_->group().size(), 0.0);
    const int rank = context_->group().rank();
    weights[rank] = weights[rank ^ (1 << bit)] = 0.5;
    deviations(*context_).ranks_mixed(weights);
  }

  void declare_state(State& state) override { state.number("steps", steps_); }

 private:
  std::vector<RankGroup*> pairs_;  // by bit: this rank and its peer
  std::int64_t steps_ = 0;
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Gossip, "gossip",
                "each rank averages its parameters with one other's: decentralized SGD", "1.0")
