// A strategy whose gradients are no mean outside its own slice, as one that shards: it refuses the
// norm of all of them, and gradients that add up.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace {

class TestUnclippedStrategy final : public ddprun::Strategy {
 public:
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (run.optimizer.clip_norm > 0.0) {
      return ddprun::Refusal{.reason = "a rank has the mean of its own slice alone",
                             .expected = "optimizer.clip_norm 0",
                             .hint = "remove `clip_norm:` under `optimizer:`"};
    }
    if (run.accumulate == 1) return {};
    return ddprun::Refusal{.reason = "it keeps no gradients between micro-batches",
                           .expected = "train.accumulate 1"};
  }
  void finish_backward() override {}
};

}  // namespace

DDPRUN_PLUGIN_AS(refusing_a, TestUnclippedStrategy, strategy, "unclipped", "refusing", "1.2")
