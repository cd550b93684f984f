// The timed step: forward, backward with synchronization, clipping and update.
#include "ddprun/experiments/training/trainer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/experiments/training/host_times.h"
#include "ddprun/experiments/training/skew.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/measure/intervals.h"
#include "ddprun/measure/kernel_clock.h"
#include "ddprun/measure/phase.h"
#include "ddprun/memory/memory_category.h"
#include "ddprun/model/pretrained_weights.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/plugin/called.h"
#include "ddprun/proof/drawn_run.h"

namespace ddprun {

namespace {

/// A step's time is that of all its communication.
void check_all_ended(const std::vector<std::string>& open, std::int64_t step) {
  if (open.empty()) return;
  throw Error({.what = "a step ended before its collectives",
               .where = fmt::format("step {}", step),
               .got = fmt::format("{} of them open: {}", open.size(), open.front()),
               .expected = "each collective waited for in the step that began it",
               .hint = "the strategy is at fault: Work::wait(), at the latest in update()"});
}

/// Nothing, if it is no number: then there is no such figure.
std::optional<double> finite_quotient(double above, double below) {
  const double value = above / below;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::unique_ptr<DataSource> open_training_data(const Experiment& experiment) {
  const TrainingConfig& config = training(experiment);
  return open_data(config.data, config.model.vocab_size, config.model.context_length,
                   static_cast<std::uint64_t>(config.train.seed), global_batch(experiment));
}

Trainer::Trainer(const Experiment& experiment, RunPlugins plugins, ProcessGroup& group,
                 const Beginning& beginning)
    : experiment_(experiment),
      config_(training(experiment)),
      steps_(steps_from(beginning.step, config_.train)),
      group_(group),
      device_(group.device()),
      plugins_(std::move(plugins)),
      // Equal seeds would make equal models, so a strategy that sends nothing would pass for one
      // that does: rank 0 alone has initial values.
      model_(config_.model, *plugins_.attention,
             group.rank() == 0 ? std::optional(static_cast<std::uint64_t>(config_.train.seed))
                               : std::nullopt,
             device_.torch_device()),
      data_(device_.torch_device().is_meta() ? nullptr : open_training_data(experiment)),
      micro_batches_(micro_batches(experiment, group.size())),
      inputs_(micro_batches_) {
  if (data_) check_planned(*data_, config_.data, planned_hash(experiment, kDataPath));
  if (group.rank() == 0) write_weights(beginning);
  if (data_) initial_.emplace(model_.parameters(), agreed_seed(config_.train.proof_seed, group));
  data_parallel_ = std::make_unique<DataParallel>(
      model_.parameters(), group, *plugins_.strategy, *plugins_.precision, config_.optimizer,
      describe_run(experiment, *plugins_.precision), config_.train.measure);
  data_parallel_->steps_alike().leave();  // one file's; RunProof looks at what each updated with
  model_.use_linear([this](const at::Tensor& x, const at::Tensor& weight) {
    return data_parallel_->linear(x, weight);
  });
  model_.use_units([this](int unit, const std::function<at::Tensor()>& forward) {
    at::Tensor out = data_parallel_->unit(unit, forward);
    if (watch_units_) watch_units_(unit, micro_batch_, out);
    return out;
  });
  model_.use_as_in_forward([this](const std::function<at::Tensor()>& part) {
    return data_parallel_->forward_again(part);
  });
  if (config_.model.kernels == KernelSet::fused) model_.use_memory(data_parallel_->slots());
  if (experiment.world.device == DeviceKind::cuda) model_.use_logits(fused::kLogitsOfGpu);
}

void Trainer::load_inputs(std::int64_t index) {
  const MemoryScope scope(MemoryCategory::data);
  const std::int64_t count = micro_batch(experiment_);
  const auto device = device_.torch_device();
  for (std::int64_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
    if (!data_) {
      const at::Tensor ids = at::empty({count, config_.model.context_length},
                                       at::TensorOptions(device).dtype(at::kLong));
      inputs_[micro_batch] = {ids, at::empty_like(ids)};
      if (config_.data.document_end >= 0) {
        inputs_[micro_batch].first_keys = at::empty_like(ids, at::kInt);
        inputs_[micro_batch].divisor = static_cast<double>(ids.numel());
      }
      continue;
    }
    const std::int64_t first =
        first_sample(experiment_, {group_.rank(), group_.size()}, micro_batch);
    Batch batch = data_->batch(index, first, count);
    if (device.is_cpu()) {
      inputs_[micro_batch] = std::move(batch);
      continue;
    }
    Batch& input = inputs_[micro_batch];
    input.divisor = batch.divisor;
    // Only from page-locked memory can a copy be under way while this thread goes on. Its allocator
    // keeps that memory until the copy is done.
    const auto copy = [&](const at::Tensor& from, at::Tensor& to) {
      if (!from.defined()) return;
      if (!to.defined()) to = at::empty_like(from, device);
      to.copy_(from.pin_memory(), /*non_blocking=*/true);
    };
    copy(batch.ids, input.ids);
    copy(batch.targets, input.targets);
    copy(batch.first_keys, input.first_keys);
  }
}

void Trainer::run_micro_batch(std::int64_t micro_batch) {
  micro_batch_ = micro_batch;
  const Batch& batch = inputs_[micro_batch];
  MicroBatchMarks& marks = state_.micro_batches[micro_batch];
  const auto forward = [&] {
    return model_.loss(batch.ids, batch.targets, {batch.first_keys, batch.divisor});
  };
  if (data_parallel_->extent() == StepExtent::forward) {
    enter_loss(data_parallel_->evaluate(forward));
    const Mark end = device_.mark();
    marks = {.forward_end = end, .backward = {end, end, end}};
    return;
  }
  const Loss loss = data_parallel_->forward(forward, {micro_batch, micro_batches_});
  enter_loss(loss.value());
  if (loss.scaled_by().defined()) state_.loss_scales.push_back(loss.scaled_by());
  marks.forward_end = device_.mark();
  called_backward(*plugins_.attention, [&] { marks.backward = data_parallel_->backward(loss); });
}

void Trainer::enter_loss(const at::Tensor& loss) {
  at::Tensor& sum = state_.loss_sum;
  sum = sum.defined() ? sum + loss : loss;
}

void Trainer::run_step(const std::function<void()>& on_synchronized) {
  state_ = {};
  state_.micro_batches.resize(micro_batches_);
  for (std::int64_t i = 0; i < micro_batches_; ++i) run_micro_batch(i);
  state_.resumed = state_.micro_batches.back().backward.synchronized;
  if (on_synchronized) {
    const std::int64_t cpu_begin_ns = process_cpu_ns();
    on_synchronized();
    state_.others_cpu_ns = process_cpu_ns() - cpu_begin_ns;
    state_.resumed = device_.mark();
  }
  if (data_parallel_->extent() == StepExtent::step) {
    state_.outcome = data_parallel_->step(lr_, config_.optimizer.clip_norm);
  } else {
    data_parallel_->drop_gradients();
  }
  state_.end = device_.mark();
}

void Trainer::write_weights(const Beginning& beginning) {
  const std::string& path = config_.model.init_from;
  if (beginning.load) {
    beginning.load(model_.parameters());
  } else if (!path.empty() && data_) {
    const std::uint64_t hash = PretrainedWeights(path, config_.model).load(model_.parameters());
    if (hash == planned_hash(experiment_, kInitFrom)) return;
    throw Error(
        {.what = "the weights to begin with are not what they were when the run was planned",
         .where = path,
         .got = "other contents",
         .expected = "the same ones until the run has read them",
         .hint = "run again when nothing writes to it any more"});
  }
}

void Trainer::replay_step() {
  if (!graph_) {
    graph_ = device_.capture([this] { run_step({}); });
    TORCH_CHECK(graph_, "experiment_check refuses graphs on a device without them");
  }
  graph_->launch();
  group_.replay();
  data_parallel_->step_replayed();
}

void Trainer::untimed_step(std::int64_t index, const std::function<void()>& on_synchronized) {
  const PhaseScope phase(Phase::step, index);
  lr_ = learning_rate(config_.optimizer, index, steps_.end);
  load_inputs(index);
  data_parallel_->begin_step(lr_);
  if (config_.execution.mode == ExecutionMode::cuda_graph &&
      index >= ExecutionConfig::kEagerSteps) {
    replay_step();
  } else {
    run_step(on_synchronized);
  }
}

Sample Trainer::step(std::int64_t index, const std::function<void()>& on_synchronized) {
  const Training& q = training();
  Sample sample(q);
  sample.step = index;
  sample.warmup = index < steps_.measured;
  group_.take_records();  // whatever went before is not of this step
  HostTimes host;
  std::optional<PhaseSubscription> to_host;
  if (device_.works_behind()) to_host.emplace(host);
  const std::int64_t cpu_begin_ns = process_cpu_ns();
  const Mark begin = device_.mark();
  untimed_step(index, on_synchronized);
  sample[q.cpu_ms] = to_ms(process_cpu_ns() - cpu_begin_ns - state_.others_cpu_ns);
  check_all_ended(group_.open_collectives(), index);
  fill_times(begin, sample);
  if (to_host) host.add_to(sample);
  sample[q.skipped] = state_.outcome.skipped() ? 1 : 0;
  if (const auto norm = state_.outcome.gradient_norm()) sample[q.gradient_norm] = *norm;
  if (const auto share = error_feedback()) sample[q.error_feedback] = *share;
  sample[q.loss] = state_.loss_sum.item<double>() / static_cast<double>(micro_batches_);
  return sample;
}

at::Tensor Trainer::gradients() const {
  const auto& scales = state_.loss_scales;
  return unscaled_gradients(*data_parallel_, scales.empty() ? at::Tensor() : scales.back());
}

std::vector<double> Trainer::loss_scales() const {
  return mapped(state_.loss_scales, [](const at::Tensor& each) { return each.item<double>(); });
}

std::optional<double> Trainer::error_feedback() const {
  const at::Tensor kept = data_parallel_->context().carried().error_feedback;
  if (!kept.defined()) return std::nullopt;
  const FlatBuffers& buffers = data_parallel_->buffers();
  const at::Tensor sent = buffers.gradients(buffers.all());  // unset, but still there
  return finite_quotient(kept.norm().item<double>(), sent.to(at::kFloat).norm().item<double>());
}

double Trainer::loss_of(const Batch& batch) {
  const auto device = device_.torch_device();
  const at::Tensor ids = batch.ids.to(device), targets = batch.targets.to(device);
  const at::Tensor& first_keys = batch.first_keys;
  const Documents documents = {first_keys.defined() ? first_keys.to(device) : first_keys,
                               batch.divisor};
  return data_parallel_->evaluate([&] { return model_.loss(ids, targets, documents); })
      .item<double>();
}

at::Tensor Trainer::logits_of(const at::Tensor& ids) {
  const at::Tensor there = ids.to(device_.torch_device());
  return data_parallel_->evaluate([&] { return model_.logits(there); });
}

double Trainer::last_loss_again() {
  double sum = 0;
  for (const Batch& batch : inputs_) sum += loss_of(batch);
  return sum / static_cast<double>(micro_batches_);
}

LossesOfBatch Trainer::losses_of(const Batch& batch) {
  const Documents documents = {batch.first_keys, batch.divisor};
  const std::string format = plugins_.precision->dtypes().product_format();
  return {
      .own = [=, this] { return model_.loss(batch.ids, batch.targets, documents); },
      .plain =
          [=, this] { return model_.reference_loss(batch.ids, batch.targets, documents, format); },
      .exact = [=, this] { return model_.exact_loss(batch.ids, batch.targets, documents); }};
}

StepScalars Trainer::last_scalars() const {
  const at::Tensor& factor = data_parallel_->optimizer().gradient_scale().factor;
  return {.lr = lr_,
          .gradient_norm = state_.outcome.norm.defined() ? state_.outcome.norm.item<double>() : 0,
          .factor = factor.defined() ? factor.item<double>() : 1,
          .skipped = state_.outcome.skipped()};
}

void Trainer::set_gradients(const at::Tensor& gradients) {
  const FlatBuffers& buffers = data_parallel_->buffers();
  LossScaler* const scaler = plugins_.precision->loss_scaler();
  const at::Tensor scaled = scaler != nullptr ? scaler->scale(gradients) : gradients;
  for (int index = 0; index < buffers.count(); ++index) {  // the padding stays zero
    for (const Range& own : buffers.owned(buffers.range(index))) {
      buffers.mean(own).copy_(scaled.narrow(0, own.begin, own.size()));
    }
  }
  data_parallel_->gradients_set();
}

StepTimeline Trainer::timeline() const {
  StepTimeline out{.begin_ns = step_begin_ns_, .collectives = records_};
  std::int64_t now_ns = step_begin_ns_;
  const auto span = [&](const std::string& name, Mark begin, Mark end) {
    return TimeSpan{name, device_.time_of(begin), device_.time_of(end)};
  };
  const auto add = [&](Phase phase, Mark end) {  // where the one before ended
    const std::int64_t end_ns = moment(device_.time_of(end));
    out.phases.push_back({to_string(phase), std::exchange(now_ns, end_ns), end_ns});
  };
  for (const auto& [forward_end, backward] : state_.micro_batches) {
    add(Phase::forward, forward_end);
    if (data_parallel_->extent() == StepExtent::forward) continue;
    add(Phase::backward, backward.last_gradient);
    add(Phase::synchronize, backward.synchronized);
    for (const auto& [begin, end] : backward.updates) {
      out.phases.push_back(span("update", begin, end));
    }
    for (const auto& [unit, begin, end] : backward.units) {  // the last one's ends the phase
      out.units.push_back(span(data_parallel_->roles().unit_names[unit], begin,
                               std::min(end, backward.last_gradient)));
    }
    for (const Mark mark : backward.gradients) out.gradients_ns.push_back(device_.time_of(mark));
  }
  if (data_parallel_->extent() == StepExtent::step) add(Phase::optimizer, state_.end);
  return out;
}

std::int64_t Trainer::moment(std::int64_t time_ns) const {
  const std::int64_t begin_ns = device_.time_of(state_.micro_batches.back().backward.synchronized);
  if (time_ns <= begin_ns) return time_ns;
  return std::max(begin_ns, time_ns - (device_.time_of(state_.resumed) - begin_ns));
}

void Trainer::fill_times(Mark begin, Sample& sample) {
  const Training& q = training();
  const auto between_ns = [this](Mark from, Mark to) {
    return moment(device_.time_of(to)) - moment(device_.time_of(from));
  };
  step_begin_ns_ = device_.time_of(begin);
  records_ = group_.take_records();
  for (CollectiveRecord& record : records_) {
    for (std::int64_t* const time_ns : {&record.enqueue_ns, &record.start_ns, &record.end_ns,
                                        &record.wait_begin_ns, &record.wait_end_ns}) {
      *time_ns = moment(*time_ns);
    }
  }
  const auto waited_ns = [this](Mark from, Mark to) {
    return waited_between(records_, moment(device_.time_of(from)), moment(device_.time_of(to)));
  };
  const BackwardMarks& last = state_.micro_batches.back().backward;
  sample[q.step_ms] = to_ms(between_ns(begin, state_.end));
  const StepExtent extent = data_parallel_->extent();
  Mark forward_begin = begin;  // what the first needs from the host included
  double optimizer_ms = 0;
  for (const auto& [forward_end, backward] : state_.micro_batches) {
    std::int64_t update_ns = 0;
    for (const auto& [begin, done] : backward.updates) update_ns += between_ns(begin, done);
    const std::int64_t forward_waited_ns = waited_ns(forward_begin, forward_end);
    sample[q.forward_ms] += to_ms(between_ns(forward_begin, forward_end) - forward_waited_ns);
    forward_begin = backward.synchronized;
    if (extent == StepExtent::forward) continue;
    const std::int64_t backward_waited_ns = waited_ns(forward_end, backward.last_gradient);
    sample[q.backward_ms] +=
        to_ms(between_ns(forward_end, backward.last_gradient) - backward_waited_ns);
    sample[q.synchronize_ms] += to_ms(between_ns(backward.last_gradient, backward.synchronized) -
                                      update_ns + forward_waited_ns + backward_waited_ns);
    optimizer_ms += to_ms(update_ns);
  }
  if (extent == StepExtent::step) {
    const std::int64_t update_waited_ns = waited_ns(last.synchronized, state_.end);
    sample[q.synchronize_ms] += to_ms(update_waited_ns);
    sample[q.optimizer_ms] =
        optimizer_ms + to_ms(between_ns(last.synchronized, state_.end) - update_waited_ns);
  }
  fill_communication(device_.time_of(last.last_gradient), sample);
}

void Trainer::fill_communication(std::int64_t last_gradient_ns, Sample& sample) {
  const Training& q = training();
  std::vector<Interval> intervals;
  for (const auto& record : records_) {
    sample[q.bytes] += static_cast<double>(record.bytes);
    sample[q.launch_delay_ms] +=
        to_ms(record.start_ns - record.enqueue_ns) / static_cast<double>(records_.size());
    intervals.push_back({record.start_ns, record.end_ns});
  }
  sample[q.collectives] = static_cast<double>(records_.size());
  sample[q.communication_ms] = to_ms(union_length(intervals));
  sample[q.overlapped_ms] = to_ms(overlapped_between(records_, step_begin_ns_, last_gradient_ns));
}

}  // namespace ddprun
