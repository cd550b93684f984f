// Data parallelism for any model: hooks tell the strategy of each final gradient, then the
// optimizer runs.
#include "ddprun/train/data_parallel.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "ddprun/config/experiment.h"
#include "ddprun/measure/phase.h"

namespace ddprun {

/// Runs on the autograd thread after a parameter's gradient was accumulated, or written by a fused
/// kernel: a hook of the parameter's node, as c10d::Reducer has it, runs for both.
class DataParallel::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(DataParallel& owner, int index) : owner_(owner), index_(index) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    owner_.on_accumulated(index_);
    return outputs;
  }

 private:
  DataParallel& owner_;
  int index_;
};

void check_overlap(const Strategy& strategy, const std::string& where) {
  if (strategy.reports_ranges()) return;
  throw ConfigError({.what = "optimizer.overlap needs a strategy that reports which gradients have "
                             "arrived while others travel",
                     .where = where,
                     .got = "a strategy that does not",
                     .expected = {},
                     .hint = "take another strategy, remove optimizer.overlap, or let the strategy "
                             "call range_ready()"});
}

DataParallel::DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                           Strategy& strategy, Precision& precision,
                           const OptimizerConfig& optimizer)
    : buffers_(parameters, {precision.compute_dtype(), precision.reduce_dtype()},
               [&group](std::int64_t elements, const at::TensorOptions& options) {
                 return group.allocate(elements, options);
               }),
      context_(group, buffers_),
      strategy_(strategy),
      precision_(precision),
      optimizer_(make_optimizer(optimizer, buffers_)),
      overlap_(optimizer.overlap) {
  if (overlap_) {
    check_overlap(strategy, "optimizer.overlap");
    context_.on_range_ready([this](Range range) { on_range_ready(range); });
  }
  strategy_.setup(context_);
  // Last: nothing that throws may leave hooks behind that point to this object.
  for (int index = 0; index < buffers_.count(); ++index) {
    auto node = torch::autograd::impl::grad_accumulator(buffers_.parameter(index));
    const auto key = node->add_post_hook(std::make_unique<Hook>(*this, index));
    hooks_.emplace_back(std::move(node), key);
  }
}

DataParallel::~DataParallel() {
  for (const auto& [node, key] : hooks_) node->del_post_hook(key);
}

void DataParallel::on_accumulated(int index) {
  if (!buffers_.adopt_gradient(index)) return;
  if (last_micro_batch_) buffers_.finish_gradient(index);
  if (++gradients_seen_ == buffers_.count()) {
    marks_.last_gradient = context_.group().device().mark();
  }
  if (last_micro_batch_) strategy_.on_gradient(index);
}

void DataParallel::on_range_ready(Range range) {
  if (!begun_lr_) return;  // a backward without a step, as a run's proof makes it
  if (!backward_done_) {
    throw Error({.what = "the strategy reported a range before backward was done",
                 .expected = "range_ready() from finish_backward() on: backward still reads "
                             "parameters"});
  }
  const ProfilerRange profiled("update");
  Device& device = context_.group().device();
  const Mark begin = device.mark();
  optimizer_->update(range);
  ++early_updates_;
  marks_.updates.emplace_back(begin, device.mark());
}

void DataParallel::before_forward(bool last) {
  if (last) context_.run_before_forward();
}

BackwardMarks DataParallel::backward(const at::Tensor& loss, bool last) {
  last_micro_batch_ = last;
  gradients_seen_ = 0;
  Device& device = context_.group().device();
  marks_ = {.begin = device.mark()};
  {
    const PhaseScope phase(Phase::backward);
    loss.backward();
  }
  if (gradients_seen_ != buffers_.count()) {
    throw Error({.what = "backward did not reach every parameter",
                 .got = std::to_string(gradients_seen_) + " gradients",
                 .expected = std::to_string(buffers_.count()) + ", one for each parameter",
                 .hint = "a parameter that the loss does not depend on must not be given to "
                         "DataParallel"});
  }
  if (last) finish_backward();
  marks_.synchronised = device.mark();
  return std::move(marks_);
}

void DataParallel::finish_backward() {
  const PhaseScope phase(Phase::synchronise);
  early_updates_ = 0;
  backward_done_ = true;
  strategy_.finish_backward();
  if (begun_lr_ && early_updates_ == 0) {
    throw Error(
        {.what = "the strategy reported no range, so optimizer.overlap had no effect",
         .expected = "range_ready() within finish_backward(), as its reports_ranges() says"});
  }
}

void DataParallel::begin_step(double lr) {
  if (!overlap_) {
    throw Error({.what = "begin_step() without optimizer.overlap", .hint = "step() alone does it"});
  }
  optimizer_->begin_step(lr, 1.0);
  begun_lr_ = lr;
  backward_done_ = false;
}

void DataParallel::complete_begun_step(double lr, double clip_norm) {
  const bool begun = begun_lr_ && backward_done_;
  if (!begun || *begun_lr_ != lr || clip_norm > 0.0) {
    throw Error({.what = "with optimizer.overlap, step() can only complete what begin_step() began",
                 .got = fmt::format("lr {} and clip_norm {}", lr, clip_norm),
                 .expected = begun ? fmt::format("lr {} and clip_norm 0", *begun_lr_)
                                   : "begin_step() before the backward that synchronises"});
  }
  begun_lr_.reset();
  const at::Tensor gradients = buffers_.gradients(buffers_.all());
  const auto version = gradients._version();  // counts writes in place
  const bool finite = precision_.unscale_gradients(gradients, context_.group());
  if (!finite || gradients._version() != version) {
    throw Error({.what = "optimizer.overlap cannot run with a precision that changes gradients, or "
                         "skips the step, after backward: parameters are updated by then",
                 .hint = "take another precision, or remove optimizer.overlap"});
  }
  strategy_.optimizer_step(*optimizer_);
  buffers_.drop_gradients();
}

StepOutcome DataParallel::step(double lr, double clip_norm) {
  const PhaseScope phase(Phase::optimizer);
  StepOutcome outcome;
  if (overlap_) {
    complete_begun_step(lr, clip_norm);
    return outcome;
  }
  outcome.skipped =
      !precision_.unscale_gradients(buffers_.gradients(buffers_.all()), context_.group());
  if (!outcome.skipped) {
    double scale = 1.0;
    if (clip_norm > 0.0) {
      const double norm = gradient_norm(buffers_);
      if (norm > clip_norm) scale = clip_norm / norm;
      outcome.gradient_norm = norm;
    }
    optimizer_->begin_step(lr, scale);
    strategy_.optimizer_step(*optimizer_);
  }
  buffers_.drop_gradients();
  return outcome;
}

}  // namespace ddprun
