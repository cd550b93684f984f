// Data parallelism for any model: hooks tell the strategy of each final gradient, then the
// optimizer runs.
#include "ddprun/train/data_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

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

void check_overlap(const Strategy& strategy, const Precision& precision, const std::string& where) {
  if (precision.scales_loss()) {
    throw ConfigError({.what = "optimizer.overlap cannot run with a precision that scales the loss",
                       .where = where,
                       .got = "a precision that scales the loss",
                       .expected = "one that does not",
                       .hint = "parameters are updated before their gradients could be scaled "
                               "back: take another precision, or remove optimizer.overlap"});
  }
  if (strategy.reports_ranges()) return;
  throw ConfigError({.what = "optimizer.overlap needs a strategy that reports which gradients have "
                             "arrived while others travel",
                     .where = where,
                     .got = "a strategy that does not",
                     .expected = "one that calls range_ready()",
                     .hint = "take another strategy, remove optimizer.overlap, or let the strategy "
                             "call range_ready()"});
}

DataParallel::DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                           Strategy& strategy, Precision& precision,
                           const OptimizerConfig& optimizer)
    : buffers_(parameters,
               {precision.compute_dtype(), precision.reduce_dtype(), precision.parameter_dtype()},
               [&group](std::int64_t elements, const at::TensorOptions& options) {
                 return group.allocate(elements, options);
               }),
      context_(group, buffers_),
      strategy_(strategy),
      precision_(precision),
      optimizer_(make_optimizer(optimizer, buffers_)),
      overlap_(optimizer.overlap) {
  if (overlap_) {
    check_overlap(strategy, precision, "optimizer.overlap");
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
                 .where = "range_ready()",
                 .got = "a call during backward, which still reads parameters",
                 .expected = "calls from finish_backward() on",
                 .hint = "the strategy is at fault: see docs/writing_a_plugin.md"});
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
                 .where = "DataParallel::backward",
                 .got = std::to_string(gradients_seen_) + " gradients",
                 .expected = std::to_string(buffers_.count()) + ", one for each parameter",
                 .hint = "a parameter that the loss does not depend on must not be given to "
                         "DataParallel"});
  }
  if (last) finish_backward();
  marks_.synchronized = device.mark();
  return std::move(marks_);
}

void DataParallel::finish_backward() {
  const PhaseScope phase(Phase::synchronize);
  early_updates_ = 0;
  backward_done_ = true;
  strategy_.finish_backward();
  if (overlap_ && begun_lr_ && early_updates_ == 0) {
    throw Error({.what = "the strategy reported no range, so optimizer.overlap had no effect",
                 .where = "finish_backward()",
                 .got = "no call of range_ready()",
                 .expected = "range_ready() within it, as reports_ranges() says",
                 .hint = "the strategy is at fault: see docs/writing_a_plugin.md"});
  }
}

void DataParallel::begin_step(double lr) {
  optimizer_->begin_step(lr);
  begun_lr_ = lr;
  backward_done_ = false;
}

/// With optimizer.overlap parts of the parameters are updated by now, at begin_step's rate and from
/// gradients that were not clipped.
void DataParallel::check_begun(double lr, double clip_norm) const {
  const bool begun = begun_lr_ && backward_done_;
  if (begun && *begun_lr_ == lr && !(overlap_ && clip_norm > 0.0)) return;
  throw Error(
      {.what = "step() can only complete what begin_step() began",
       .where = "DataParallel::step",
       .got = fmt::format("lr {} and clip_norm {}", lr, clip_norm),
       .expected = begun ? fmt::format("lr {}{}", *begun_lr_, overlap_ ? " and clip_norm 0" : "")
                         : "begin_step() before the backward that synchronizes",
       .hint = "a training loop of your own: begin_step(lr), backward, step(lr, clip_norm)"});
}

GradientScale DataParallel::agreed_scale() {
  if (!precision_.scales_loss()) return {};
  GradientScale scale = precision_.gradient_scale(buffers_.gradients(buffers_.all()));
  TORCH_CHECK(scale.overflow.defined(), "a precision that scales the loss must report overflow");
  context_.group().all_reduce(scale.overflow, ReduceOp::max, "overflow").wait();
  return scale;
}

std::vector<PlannedCollective> DataParallel::planned() const {
  auto planned = context_.planned();
  if (precision_.scales_loss()) {
    planned.push_back({CollectiveKind::all_reduce, static_cast<std::int64_t>(sizeof(float))});
  }
  return planned;
}

StepOutcome DataParallel::step(double lr, double clip_norm) {
  const PhaseScope phase(Phase::optimizer);
  if (!begun_lr_ && !overlap_) {  // which only overlap needs before backward
    begin_step(lr);
    backward_done_ = true;
  }
  check_begun(lr, clip_norm);
  begun_lr_.reset();
  StepOutcome outcome;
  GradientScale scale = agreed_scale();
  outcome.overflow = scale.overflow;
  if (clip_norm > 0.0) {
    outcome.norm = gradient_norm(buffers_);
    if (scale.factor.defined()) outcome.norm = outcome.norm * scale.factor;
    const at::Tensor clip = outcome.norm.reciprocal().mul(clip_norm).clamp_max(1.0);
    scale.factor = (scale.factor.defined() ? clip * scale.factor : clip).to(at::kFloat);
  }
  if (scale.factor.defined() || scale.overflow.defined()) optimizer_->scale_gradients(scale);
  strategy_.optimizer_step(*optimizer_);
  buffers_.zero_grad();
  return outcome;
}

bool StepOutcome::skipped() const { return overflow.defined() && overflow.item<float>() > 0.0F; }

std::optional<double> StepOutcome::gradient_norm() const {
  if (!norm.defined() || skipped()) return std::nullopt;
  return norm.item<double>();
}

}  // namespace ddprun
