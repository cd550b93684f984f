// Data parallelism for any model: hooks tell the strategy of each final gradient, then the
// optimizer runs.
#include "ddprun/parallel/data_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/measure/phase.h"
#include "ddprun/memory/memory_category.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/plugin/ask_plugin.h"
#include "ddprun/plugin/called.h"

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
               .hint = "convert what the model reads: x.to(ddp.parameter_dtype()), and buffers, "
                       "buffer.set_data(buffer.to(ddp.parameter_dtype()))"});
}

}  // namespace

void check_overlap(const Plan& plan, Precision& precision, const std::string& where) {
  if (precision.loss_scaler() != nullptr) {
    throw ConfigError({.what = "optimizer.overlap cannot run with a precision that scales the loss",
                       .where = where,
                       .got = "a precision that scales it",
                       .expected = "a precision that leaves gradients as they are",
                       .hint = "parameters are updated before their gradients could be scaled "
                               "back: take another precision, or remove optimizer.overlap"});
  }
  if (plan.reports_ranges) return;
  throw ConfigError({.what = "optimizer.overlap needs a strategy that reports which gradients have "
                             "arrived while others travel",
                     .where = where,
                     .got = "a strategy that does not",
                     .expected = "a strategy whose plan says reports_ranges",
                     .hint = "take another strategy, remove optimizer.overlap, or let the strategy "
                             "call range_ready()"});
}

DataParallel::DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                           Strategy& strategy, Precision& precision,
                           const OptimizerConfig& optimizer, const RunDescription& run,
                           StepExtent extent)
    : DataParallel(prepare(parameters, group, strategy, precision, optimizer, run, extent), group,
                   strategy, precision, extent) {}

DataParallel::DataParallel(Preparation preparation, ProcessGroup& group, Strategy& strategy,
                           Precision& precision, StepExtent extent)
    : extent_(extent),
      run_(std::move(preparation.run)),
      strategy_(strategy),
      roles_(std::move(preparation.roles)),
      shard_group_(shard_group_of(group, preparation.plan.holding.shards)),
      buffers_(preparation.layout, roles_.trained, preparation.plan.holding,
               [this](std::int64_t elements, const at::TensorOptions& options) {
                 return shard_group_.allocate(elements, options);
               }),
      frozen_(roles_.frozen.empty() ? nullptr
                                    : std::make_unique<FrozenParameters>(
                                          roles_, buffers_, run_.kernels, group, shard_group_)),
      context_(group, shard_group_, buffers_, std::move(preparation.plan)),
      precision_(precision),
      linear_(called(precision, "linear()", [&] { return precision.linear(); })),
      optimizer_(make_optimizer(run_.optimizer, buffers_)),
      order_(run_.optimizer.overlap),
      walk_(roles_, context_, frozen_.get(), strategy, arrivals_,
            [this](int unit) {
              if (watch_) watch_(Watched::unit, unit);
            }),
      alike_(group, walk_.sharded()),
      marks_details_(group.device().torch_device().is_cpu()) {
  if (extent == StepExtent::forward) return;
  context_.update_by(*optimizer_);
  const bool overlap = run_.optimizer.overlap;
  if (overlap) {
    check_overlap(context_.plan(), precision, "optimizer.overlap");
    context_.on_range_ready([this](Range range) { return on_range_ready(range); });
  }
  {
    const MemoryScope buffers(MemoryCategory::communication);
    called(strategy_, "setup()", [&] {
      strategy_.setup(context_);
      walk_.check_listener();
    });
  }
  if (!context_.parameters_agreed() && buffers_.holding().parameters == Placement::sharded) {
    buffers_.agree_on_values([](const at::Tensor&) {});  // each rank's own: the proof will say so
  }
  const BufferDtypes& dtypes = buffers_.dtypes();
  const bool own_gradients = buffers_.owns_all() && !sharded() && dtypes.reduce == dtypes.model &&
                             precision.loss_scaler() == nullptr && !overlap;
  watched_.begin(buffers_, frozen_ ? &frozen_->buffers() : nullptr,
                 {.gradients = own_gradients, .parameters_rest = !overlap});
  set_hooks();  // last: nothing that throws may leave hooks behind that point to this object
}

std::vector<ParameterSlot> DataParallel::slots() const {
  const std::vector<ParameterSlot> trained = buffers_.slots();
  std::vector<ParameterSlot> frozen;
  if (frozen_) frozen = frozen_->buffers().slots();
  return mapped(roles_.places, [&](const ParameterRoles::Place& place) {
    return (place.trained ? trained : frozen)[place.number];
  });
}

void DataParallel::set_hooks() {
  for (int index = 0; index < buffers_.count(); ++index) {
    const auto node = torch::autograd::impl::grad_accumulator(buffers_.parameter(index));
    const auto key = node->add_post_hook(std::make_unique<Hook>(*this, index));
    remove_hooks_.emplace_back([node, key] { node->del_post_hook(key); });
  }
}

DataParallel::~DataParallel() {
  for (const auto& remove : remove_hooks_) remove();
}

void DataParallel::on_accumulated(int index) {
  const bool last_backward = order_.phase() == StepPhase::last_backward;
  const bool final = last_backward || sharded();
  // A backward of the program's own may add to what micro-batches add up to.
  const bool accumulates = order_.phase() == StepPhase::accumulating && !sharded() &&
                           precision_.loss_scaler() == nullptr;
  if (!arrivals_.note(index, accumulates)) return;
  walk_.check_place(index);
  buffers_.adopt_gradient(index);
  if (!arrivals_.under_way()) return;
  if (final) buffers_.finish_gradient(index);
  if (arrivals_.complete() || marks_details_) {
    const Mark now = context_.process_group().device().mark();
    if (marks_details_) marks_.gradients.push_back(now);
    if (arrivals_.complete()) marks_.last_gradient = now;
  }
  if (watch_) watch_(final ? Watched::final : Watched::partial, index);
  if (!exchanges(last_backward)) return;
  const MemoryScope buffers(MemoryCategory::communication);
  called(strategy_, "on_gradient()", [&] { strategy_.on_gradient(index); });
}

bool DataParallel::on_range_ready(Range range) {
  if (!order_.may_update()) return false;
  const ProfilerRange profiled("update");
  Device& device = context_.process_group().device();
  const Mark begin = device.mark();
  optimizer_->update(range);
  marks_.updates.emplace_back(begin, device.mark());
  return true;
}

at::Tensor DataParallel::linear(const at::Tensor& x, const at::Tensor& weight) {
  linear_called_ = true;
  if (!linear_) return at::linear(x, weight);
  return called(precision_, "linear()", [&] { return linear_(x, weight); });
}

at::Tensor DataParallel::under_precision(const std::function<at::Tensor()>& loss) {
  const auto guard =
      called(precision_, "forward_guard()", [&] { return precision_.forward_guard(); });
  try {
    const at::Tensor value = loss();
    watched_.model_ran();
    if (linear_ && !linear_called_) refuse_own_products();
    return value;
  } catch (const c10::Error& error) {
    const std::string_view words = error.msg();
    const bool dtypes = words.find("dtype") != std::string_view::npos ||
                        words.find("scalar type") != std::string_view::npos;
    if (parameter_dtype() == at::kFloat || !dtypes) throw;
    explain_dtypes(error, parameter_dtype());
  }
}

at::Tensor DataParallel::unit(int unit, const std::function<at::Tensor()>& forward) {
  return walk_.unit(unit, forward);
}

Loss DataParallel::forward(const std::function<at::Tensor()>& loss, MicroBatch micro_batch) {
  at::Tensor value;
  {
    const PhaseScope phase(Phase::forward);
    watched_.check();
    before_forward(micro_batch);
    buffers_.expect_micro_batches(micro_batch.count);
    value = under_precision([&] { return walk_.forward(loss); });
  }
  check_loss(value);
  at::Tensor root = micro_batch.count > 1 ? value / micro_batch.count : value;
  at::Tensor scaled_by;
  if (LossScaler* const scaler = precision_.loss_scaler()) {
    const at::Tensor share = root;
    // What it writes in place is not the loss that is told.
    root = called(precision_, "LossScaler::scale()", [&] { return scaler->scale(share.clone()); });
    scaled_by = root.detach() / share.detach();
  }
  return {value, std::move(root), std::move(scaled_by), micro_batch};
}

at::Tensor DataParallel::evaluate(const std::function<at::Tensor()>& loss) {
  const PhaseScope phase(Phase::forward);
  const c10::AutoGradMode no_gradients(false);
  return under_precision([&] { return walk_.forward(loss); });
}

at::Tensor DataParallel::forward_again(const std::function<at::Tensor()>& part) {
  const ProfilerRange profiled("forward again");
  return walk_.again([&] { return under_precision(part); });
}

BackwardMarks DataParallel::backward(const Loss& loss) {
  BackwardMarks marks = backward_as_is(loss.root_, loss.micro_batch_);
  alike_.backward_done(loss.micro_batch_);
  return marks;
}

BackwardMarks DataParallel::backward_as_is(const at::Tensor& loss, MicroBatch micro_batch) {
  order_.start_backward(micro_batch);
  const bool last = micro_batch.last();
  arrivals_.begin();
  if (watch_) watch_(Watched::begin, 0);
  walk_.begin_backward();
  Device& device = context_.process_group().device();
  marks_ = {.begin = device.mark()};
  if (marks_details_) marks_.gradients.reserve(static_cast<std::size_t>(buffers_.count()));
  {
    const PhaseScope phase(Phase::backward);
    backward_from(loss);
    walk_.end_backward();
  }
  arrivals_.end();
  if (exchanges(last)) finish_backward(last);
  marks_.synchronized = device.mark();
  if (last) {
    absent_.hide_gradients();
    watched_.backward_done();
  }
  order_.end_backward();
  marks_.units = walk_.take_marks();
  return std::move(marks_);
}

void DataParallel::finish_backward(bool last) {
  const PhaseScope phase(Phase::synchronize);
  if (last) order_.start_synchronizing();
  const MemoryScope buffers(MemoryCategory::communication);
  called(strategy_, "finish_backward()", [&] { strategy_.finish_backward(); });
  if (last) order_.end_synchronizing(marks_.updates.size());
}

/// Of a program's own loop, which says here first that it clips.
void DataParallel::ask_to_clip(double clip_norm) {
  RunDescription run = run_;
  run.optimizer.clip_norm = clip_norm;
  ask_plugin(strategy_, run, "DataParallel::step()");
  run_ = std::move(run);
}

void DataParallel::begin_step(double lr) {
  optimizer_->begin_step(lr);
  order_.begin(lr);
}

GradientScale DataParallel::agreed_scale() {
  LossScaler* const scaler = precision_.loss_scaler();
  if (scaler == nullptr) return {};
  const auto gradients =
      mapped(buffers_.owned(), [this](const Range& own) { return buffers_.mean(own); });
  GradientScale scale = called(precision_, "LossScaler::gradient_scale()",
                               [&] { return scaler->gradient_scale(gradients); });
  TORCH_CHECK(scale.overflow.defined(), "a precision that scales the loss must report overflow");
  context_.process_group()
      .all_reduce(scale.overflow, ReduceOp::max, "overflow", Await::next)
      .wait();
  return scale;
}

std::vector<Range> DataParallel::owned_by(int rank) const {
  auto owned = ask_plan(strategy_, buffers_, rank).holding.owned;
  return owned.empty() ? std::vector{buffers_.all()} : owned;
}

at::Tensor DataParallel::agreed_norm() {
  at::Tensor norm = gradient_norm(buffers_);
  if (buffers_.owns_all()) return norm;
  const at::Tensor squares = norm.square();
  shard_group_.all_reduce(squares, ReduceOp::sum, "norm", Await::next).wait();
  return squares.sqrt();
}

std::vector<PlannedCollective> DataParallel::planned(std::int64_t micro_batches) const {
  std::vector<PlannedCollective> planned;
  const auto add = [&](const std::vector<PlannedCollective>& collectives) {
    for (const PlannedCollective& each : collectives) {
      if (each.in == PlannedIn::update && extent_ != StepExtent::step) continue;
      const auto times = each.in == PlannedIn::each_micro_batch ? micro_batches : 1;
      planned.insert(planned.end(), static_cast<std::size_t>(times), each);
    }
  };
  add(context_.plan().collectives);
  if (frozen_) add(frozen_->planned());
  if (extent_ != StepExtent::step) return planned;
  const auto add_scalar = [&](std::size_t bytes) {
    planned.push_back({CollectiveKind::all_reduce, static_cast<std::int64_t>(bytes)});
  };
  if (precision_.loss_scaler() != nullptr) add_scalar(sizeof(float));
  if (run_.optimizer.clip_norm > 0 && !buffers_.owns_all()) add_scalar(sizeof(double));
  return planned;
}

StepOutcome DataParallel::step(double lr, double clip_norm) {
  const PhaseScope phase(Phase::optimizer);
  if (clip_norm > 0 && run_.optimizer.clip_norm <= 0) ask_to_clip(clip_norm);
  if (!order_.complete(lr, clip_norm)) optimizer_->begin_step(lr);
  watched_.check_end("DataParallel::step()", false);
  StepOutcome outcome;
  GradientScale scale = agreed_scale();
  outcome.overflow = scale.overflow;
  if (clip_norm > 0.0) {
    outcome.norm = agreed_norm();
    if (scale.factor.defined()) outcome.norm = outcome.norm * scale.factor;
    const at::Tensor clip = outcome.norm.reciprocal().mul(clip_norm).clamp_max(1.0);
    scale.factor = (scale.factor.defined() ? clip * scale.factor : clip).to(at::kFloat);
  }
  if (scale.factor.defined() || scale.overflow.defined()) optimizer_->scale_gradients(scale);
  {
    const MemoryScope buffers(MemoryCategory::communication);
    called(strategy_, "update()", [&] { strategy_.update(); });
  }
  absent_.hide_parameters();
  buffers_.zero_grad();
  alike_.end(lr, clip_norm);
  return outcome;
}

void DataParallel::step_replayed() {
  order_.end();
  walk_.step_replayed();
}

void DataParallel::drop_gradients() {
  watched_.check_end("DataParallel::drop_gradients()", true);
  order_.end();
  buffers_.zero_grad();
  alike_.drop();
}

bool StepOutcome::skipped() const { return overflow.defined() && overflow.item<float>() > 0.0F; }

std::optional<double> StepOutcome::gradient_norm() const {
  if (!norm.defined() || skipped()) return std::nullopt;
  return norm.item<double>();
}

}  // namespace ddprun
