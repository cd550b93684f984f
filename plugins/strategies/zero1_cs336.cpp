// Strategy "zero1_cs336": the sharded optimizer as CS336 assignment 2, section 3, has it: each rank
// updates some of the parameters and broadcasts them.
#include <algorithm>
#include <numeric>
#include <optional>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/gradient_reductions.h"
#include "ddprun/plugin/sharding.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Every rank gets the mean of every gradient, as with "overlap". Each parameter, as a whole,
/// belongs to one rank, which keeps its moments, updates it and broadcasts it. "zero1" sends half
/// as much for the gradients, since a rank gets only those that it needs, and it gathers parameters
/// while it updates others.
class Zero1Cs336 final : public Strategy {
 public:
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    const std::vector<int> owners = owners_of(layout);
    for (int i = 0; i < layout.count(); ++i) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(i)));
      plan_broadcast(plan, layout, i);
      if (owners[i] == rank) plan.holding.owned.push_back(layout.with_padding(i));
    }
    // With more ranks than parameters: an empty list would stand for everything.
    if (plan.holding.owned.empty()) plan.holding.owned.push_back(Range{});
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    owners_ = owners_of(context.layout());
    reductions_.emplace(context);
  }

  void on_gradient(int index) override { reductions_->on_gradient(index); }

  void finish_backward() override { reductions_->finish(); }

  void update() override {
    context_->update_rest();
    std::vector<Transfer> sent;
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      sent.push_back(slices(*context_).broadcast_updated(static_cast<int>(i), owners_[i]));
    }
    for (Transfer& parameter : sent) parameter.wait();
  }

 private:
  /// The rank that owns each parameter. The largest parameters are given away first, equal ones in
  /// the order of the buffers, each to the rank that has fewest elements so far, and of several
  /// such ranks to the first.
  static std::vector<int> owners_of(const ParameterLayout& layout) {
    std::vector<int> order(layout.count());
    std::iota(order.begin(), order.end(), 0);
    const auto size = [&](int index) { return layout.range(index).size(); };
    std::ranges::stable_sort(order, [&](int a, int b) { return size(a) > size(b); });
    std::vector<std::int64_t> shares(layout.ranks());
    std::vector<int> owners(layout.count());
    for (const int index : order) {
      const auto least = std::ranges::min_element(shares);
      *least += size(index);
      owners[index] = static_cast<int>(least - shares.begin());
    }
    return owners;
  }

  std::vector<int> owners_;                       // by parameter
  std::optional<GradientReductions> reductions_;  // from setup() on
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Zero1Cs336, "zero1_cs336",
                "each rank updates parameters of its own and broadcasts them, as in CS336", "1.0")
