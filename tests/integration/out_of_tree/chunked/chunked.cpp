// chunked: after backward, all gradients in a few all-reduces that are under way at the same time.
#include <vector>

#include "ddprun/plugin/strategy.h"

namespace {

class Chunked final : public ddprun::Strategy {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("chunks", &chunks_, "into how many all-reduces the gradients are cut",
                   {.min = 1, .max = 1024});
  }

  void setup(ddprun::StrategyContext& context) override {
    context_ = &context;
    context.broadcast_parameters();
    const auto all = context.buffers().all();
    for (std::int64_t i = 0; i < chunks_; ++i) {
      const ddprun::Range chunk = {all.size() * i / chunks_, all.size() * (i + 1) / chunks_};
      if (chunk.size() == 0) continue;  // a model with fewer elements than chunks
      ranges_.push_back(chunk);
      context.plan(ddprun::CollectiveKind::all_reduce, context.buffers().gradient_bytes(chunk));
    }
  }

  void finish_backward() override {
    std::vector<ddprun::Work> works;
    for (const auto& range : ranges_) {
      works.push_back(context_->group().all_reduce(context_->buffers().gradients(range),
                                                   ddprun::ReduceOp::avg, "chunk"));
    }
    for (auto& work : works) work.wait();
  }

 private:
  std::int64_t chunks_ = 4;
  ddprun::StrategyContext* context_ = nullptr;
  std::vector<ddprun::Range> ranges_;
};

}  // namespace

DDPRUN_STRATEGY(Chunked, "chunked", "all gradients after backward, in a few concurrent all-reduces",
                "1.0")
