// Strategy "none": no communication at all, the control that shows what synchronization costs.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// On one rank it is plain training. On more, every rank trains its own model on its own share of
/// the data, from equal parameters. That is a lower bound of the step time and no training method,
/// so it has to be asked for.
class None final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option(
        "unsynchronized", &unsynchronized_,
        "run on several ranks, whose models then drift apart: a control, for timing only");
  }

  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    if (run.world_size == 1 || unsynchronized_) return {};
    return Refusal{
        .reason = "gradients are never synchronized, so " + std::to_string(run.world_size) +
                  " ranks would train different models",
        .expected = "1 rank",
        .hint = "set `unsynchronized: true` under `strategy:` to time that as a control"};
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    return {.agreement = layout.ranks() == 1 ? Agreement::exact : Agreement::none};
  }

  void finish_backward() override {}

 private:
  bool unsynchronized_ = false;
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::None, "none", "no communication: the control", "1.0")
