// chunked: after backward, all gradients in a few all-reduces that are under way at the same time.
#include <vector>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/strategy.h"

namespace {

class Chunked final : public ddprun::Strategy {
 public:
  // Keys of the YAML beside `name`. Options of your own stand here.
  void declare_options(ddprun::Options& options) override {
    options.option("chunks", &chunks_, "into how many all-reduces the gradients are cut",
                   {.min = 1, .max = 1024});
  }

  // What travels in a step. Each run holds the plan against what was sent, so change both together.
  ddprun::Plan plan(const ddprun::ParameterLayout& layout, int /*rank*/) const override {
    ddprun::Plan plan;
    for (const ddprun::Range& chunk : cut(layout)) {
      plan.add(ddprun::CollectiveKind::all_reduce, layout.gradient_bytes(chunk));
    }
    return plan;
  }

  // Backward is done. On return every gradient is the mean over the ranks. on_gradient() is where
  // to send earlier, update() where to update parameters in another way.
  void finish_backward() override {
    std::vector<ddprun::Work> works;
    for (const ddprun::Range& chunk : cut(context_->layout())) {
      works.push_back(
          context_->group().all_reduce(context_->gradients(chunk), ddprun::ReduceOp::avg, "chunk"));
    }
    for (auto& work : works) work.wait();
  }

 private:
  std::vector<ddprun::Range> cut(const ddprun::ParameterLayout& layout) const {
    const std::int64_t size = layout.all().size();
    std::vector<ddprun::Range> chunks;
    for (std::int64_t i = 0; i < chunks_; ++i) {
      const ddprun::Range chunk = {size * i / chunks_, size * (i + 1) / chunks_};
      if (chunk.size() > 0) chunks.push_back(chunk);  // a model may have fewer elements than chunks
    }
    return chunks;
  }

  std::int64_t chunks_ = 4;
};

}  // namespace

DDPRUN_STRATEGY(Chunked, "chunked", "all gradients after backward, in a few concurrent all-reduces",
                "1.0")
