// Data parallelism for any model: hooks tell the strategy of each final gradient, then the
// optimizer runs.
#include "ddprun/train/data_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>

#include "ddprun/base/choice.h"
#include "ddprun/device/device_library.h"
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

namespace {

/// The parameters after the precision has converted them. What FlatBuffers refuses stays as it is.
const std::vector<NamedTensor>& converted(const std::vector<NamedTensor>& parameters,
                                          Precision& precision) {
  const bool all_there =
      std::all_of(parameters.begin(), parameters.end(),
                  [](const NamedTensor& parameter) { return parameter.tensor.defined(); });
  if (all_there && !parameters.empty()) precision.convert(parameters);
  return parameters;
}

/// The run, as far as it is known where there is no experiment: sizes are 0.
RunDescription describe(const ProcessGroup& group, const Precision& precision,
                        const OptimizerConfig& optimizer) {
  RunDescription run;
  run.world_size = group.size();
  run.device = group.device().torch_device().is_cpu() ? DeviceKind::cpu : DeviceKind::cuda;
  run.compute_capability = compute_capability(run.device);
  run.compute_dtype = precision.compute_dtype();
  run.scales_loss = precision.scales_loss();
  run.optimizer = optimizer;
  return run;
}

/// For programs of one's own: an experiment's plugins were asked before any rank started.
void check_supported(const Plugin& plugin, const char* kind, const RunDescription& run) {
  const auto refusal = plugin.unsupported(run);
  if (!refusal) return;
  throw ConfigError(
      {.what = fmt::format("the {} cannot run here: {}", kind, refusal->reason),
       .where = "DataParallel",
       .got = fmt::format("{} rank{} on {}", run.world_size, run.world_size == 1 ? "" : "s",
                          name_of(run.device)),
       .expected = refusal->expected,
       .hint = refusal->hint.empty() ? fmt::format("take another {}", kind) : refusal->hint});
}

/// Asks the plugins before the first of them acts.
const std::vector<NamedTensor>& prepared(const std::vector<NamedTensor>& parameters,
                                         const ProcessGroup& group, const Strategy& strategy,
                                         Precision& precision, const OptimizerConfig& optimizer) {
  const RunDescription run = describe(group, precision, optimizer);
  check_supported(precision, "precision", run);
  check_supported(strategy, "strategy", run);
  return converted(parameters, precision);
}

[[noreturn]] void refuse_own_products() {
  throw Error({.what = "the model does not let the precision compute its linear layers",
               .where = "DataParallel::forward()",
               .got = "no call of DataParallel::linear()",
               .expected = "a call for each product of a linear layer",
               .hint = "call ddp.linear(x, weight) where the model calls "
                       "torch::nn::functional::linear(x, weight), or take another precision"});
}

/// ATen's words for operands of different dtypes do not say whose they are.
[[noreturn]] void explain_dtypes(const c10::Error& error, at::ScalarType parameters) {
  throw Error({.what = "the model computes with tensors of different dtypes",
               .where = "DataParallel::forward()",
               .got = error.what_without_backtrace(),
               .expected = std::string("tensors in the dtype of the parameters, ") +
                           at::toString(parameters),
               .hint = "convert what the model reads: x.to(ddp.parameter_dtype())"});
}

BufferLayout layout_of(const Precision& precision, StepExtent extent) {
  return {.compute = precision.compute_dtype(),
          .reduce = precision.reduce_dtype(),
          .model = precision.parameter_dtype(),
          .parameters = precision.updated_dtype(),
          .moments = precision.moments_dtype(),
          .gradients = extent != StepExtent::forward};
}

}  // namespace

void check_overlap(const Strategy& strategy, const Precision& precision, const std::string& where) {
  if (precision.scales_loss()) {
    throw ConfigError({.what = "optimizer.overlap cannot run with a precision that scales the loss",
                       .where = where,
                       .got = "a precision that scales it",
                       .expected = "a precision that leaves gradients as they are",
                       .hint = "parameters are updated before their gradients could be scaled "
                               "back: take another precision, or remove optimizer.overlap"});
  }
  if (strategy.reports_ranges()) return;
  throw ConfigError({.what = "optimizer.overlap needs a strategy that reports which gradients have "
                             "arrived while others travel",
                     .where = where,
                     .got = "a strategy that does not",
                     .expected = "a strategy whose reports_ranges() is true",
                     .hint = "take another strategy, remove optimizer.overlap, or let the strategy "
                             "call range_ready()"});
}

DataParallel::DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                           Strategy& strategy, Precision& precision,
                           const OptimizerConfig& optimizer, StepExtent extent)
    : extent_(extent),
      buffers_(prepared(parameters, group, strategy, precision, optimizer),
               layout_of(precision, extent),
               [&group](std::int64_t elements, const at::TensorOptions& options) {
                 return group.allocate(elements, options);
               }),
      context_(group, buffers_),
      strategy_(strategy),
      precision_(precision),
      linear_(precision.linear()),
      optimizer_(make_optimizer(optimizer, buffers_)),
      order_(optimizer.overlap) {
  if (extent == StepExtent::forward) return;
  if (optimizer.overlap) {
    check_overlap(strategy, precision, "optimizer.overlap");
    context_.on_range_ready([this](Range range) { on_range_ready(range); });
  }
  strategy_.setup(context_);
  set_hooks();  // last: nothing that throws may leave hooks behind that point to this object
}

void DataParallel::set_hooks() {
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
  const bool last = order_.phase() == StepPhase::last_backward;
  if (last) buffers_.finish_gradient(index);
  if (++gradients_seen_ == buffers_.count()) {
    marks_.last_gradient = context_.group().device().mark();
  }
  if (last) strategy_.on_gradient(index);
}

void DataParallel::on_range_ready(Range range) {
  if (!order_.may_update()) return;
  const ProfilerRange profiled("update");
  Device& device = context_.group().device();
  const Mark begin = device.mark();
  optimizer_->update(range);
  marks_.updates.emplace_back(begin, device.mark());
}

void DataParallel::before_forward(bool last) {
  if (last) context_.run_before_forward();
}

at::Tensor DataParallel::linear(const at::Tensor& x, const at::Tensor& weight) {
  linear_called_ = true;
  return linear_ ? linear_(x, weight) : at::linear(x, weight);
}

at::Tensor DataParallel::under_precision(const std::function<at::Tensor()>& loss) {
  const auto guard = precision_.forward_guard();
  try {
    const at::Tensor value = loss();
    if (linear_ && !linear_called_) refuse_own_products();
    return value;
  } catch (const c10::Error& error) {
    const bool dtypes = std::string_view(error.msg()).find("dtype") != std::string_view::npos;
    if (parameter_dtype() == at::kFloat || !dtypes) throw;
    explain_dtypes(error, parameter_dtype());
  }
}

Loss DataParallel::forward(const std::function<at::Tensor()>& loss, MicroBatch micro_batch) {
  at::Tensor value;
  {
    const PhaseScope phase(Phase::forward);
    before_forward(micro_batch.last());
    value = under_precision(loss);
  }
  at::Tensor root = micro_batch.count > 1 ? value / micro_batch.count : value;
  if (precision_.scales_loss()) root = precision_.scale_loss(root);
  return {value, std::move(root), micro_batch.last()};
}

at::Tensor DataParallel::evaluate(const std::function<at::Tensor()>& loss) {
  const PhaseScope phase(Phase::forward);
  const c10::AutoGradMode no_gradients(false);
  return under_precision(loss);
}

BackwardMarks DataParallel::backward(const Loss& loss) {
  return backward_as_is(loss.root_, loss.last_);
}

BackwardMarks DataParallel::backward_as_is(const at::Tensor& loss, bool last) {
  order_.start_backward(last);
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
  order_.start_synchronizing();
  strategy_.finish_backward();
  order_.end_synchronizing(marks_.updates.size());
}

void DataParallel::begin_step(double lr) {
  optimizer_->begin_step(lr);
  order_.begin(lr);
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
  if (precision_.scales_loss() && extent_ == StepExtent::step) {
    planned.push_back({CollectiveKind::all_reduce, static_cast<std::int64_t>(sizeof(float))});
  }
  return planned;
}

StepOutcome DataParallel::step(double lr, double clip_norm) {
  const PhaseScope phase(Phase::optimizer);
  if (!order_.complete(lr, clip_norm)) optimizer_->begin_step(lr);
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

void DataParallel::drop_gradients() {
  order_.end();
  buffers_.zero_grad();
}

bool StepOutcome::skipped() const { return overflow.defined() && overflow.item<float>() > 0.0F; }

std::optional<double> StepOutcome::gradient_norm() const {
  if (!norm.defined() || skipped()) return std::nullopt;
  return norm.item<double>();
}

}  // namespace ddprun
