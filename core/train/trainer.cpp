// The timed step: forward, backward with synchronisation, clipping and update.
#include "ddprun/train/trainer.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <optional>

#include "ddprun/measure/clock.h"
#include "ddprun/measure/intervals.h"
#include "ddprun/measure/phase.h"

namespace ddprun {

namespace {

/// A loss that was scaled makes gradients that must be scaled back before the update.
void refuse_scaling(const at::Tensor& loss, const at::Tensor& scaled) {
  if (scaled.is_same(loss)) return;
  throw ConfigError({.what = "optimizer.overlap cannot run with a precision that scales the loss",
                     .where = "optimizer.overlap",
                     .got = {},
                     .expected = {},
                     .hint = "parameters are updated before their gradients could be scaled back: "
                             "take another precision, or remove optimizer.overlap"});
}

}  // namespace

Trainer::Trainer(const Experiment& experiment, const PluginRegistry& registry, ProcessGroup& group,
                 Strategy& strategy)
    : experiment_(experiment),
      group_(group),
      device_(group.device()),
      attention_(make_attention(registry, experiment.attention)),
      precision_(make_precision(registry, experiment.precision)),
      model_(experiment.model, *attention_, static_cast<std::uint64_t>(experiment.train.seed),
             device_.torch_device()),
      data_(open_data(experiment.data, experiment.model.vocab_size, experiment.model.context_length,
                      static_cast<std::uint64_t>(experiment.train.seed))),
      micro_batches_(experiment.global_batch() / (group.size() * experiment.micro_batch())) {
  precision_->convert(model_.parameters());
  data_parallel_ = std::make_unique<DataParallel>(model_.parameters(), group, strategy, *precision_,
                                                  experiment.optimizer);
  if (experiment.model.kernels == "fused") model_.use_memory(data_parallel_->buffers().slots());
}

at::Tensor Trainer::forward(std::int64_t index, std::int64_t micro_batch, bool last) {
  const PhaseScope phase(Phase::forward);
  const std::int64_t count = experiment_.micro_batch();
  const std::int64_t first = (group_.rank() * micro_batches_ + micro_batch) * count;
  const Batch batch = data_->batch(index, first, count);
  data_parallel_->before_forward(last);
  const auto guard = precision_->forward_guard();
  const auto device = device_.torch_device();
  return model_.loss(batch.ids.to(device), batch.targets.to(device));
}

Trainer::MicroBatchMarks Trainer::run_micro_batch(std::int64_t index, std::int64_t micro_batch,
                                                  double lr, at::Tensor& loss_sum) {
  const bool overlap = experiment_.optimizer.overlap;
  const bool last = micro_batch + 1 == micro_batches_;
  MicroBatchMarks marks{.forward_begin = device_.mark(), .forward_end = 0, .backward = {}};
  at::Tensor loss = forward(index, micro_batch, last);
  loss_sum = loss_sum.defined() ? loss_sum + loss.detach() : loss.detach();
  if (micro_batches_ > 1) loss = loss / micro_batches_;
  const at::Tensor scaled = precision_->scale_loss(loss);
  if (overlap) refuse_scaling(loss, scaled);
  if (overlap && last) data_parallel_->begin_step(lr);
  marks.forward_end = device_.mark();
  marks.backward = data_parallel_->backward(scaled, last);
  return marks;
}

StepSample Trainer::step(std::int64_t index, const std::function<void()>& on_synchronised) {
  StepSample sample;
  sample.step = index;
  sample.warmup = index < experiment_.train.warmup_steps;
  const auto& optimizer = experiment_.optimizer;
  const double lr =
      learning_rate(optimizer, index, experiment_.train.warmup_steps + experiment_.train.steps);
  group_.take_records();  // whatever went before is not of this step
  std::optional<PhaseScope> phase(std::in_place, Phase::step, index);
  at::Tensor loss_sum;
  std::vector<MicroBatchMarks> micro_batches;
  for (std::int64_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
    micro_batches.push_back(run_micro_batch(index, micro_batch, lr, loss_sum));
  }
  if (on_synchronised) on_synchronised();
  const StepOutcome outcome = data_parallel_->step(lr, optimizer.clip_norm);
  const Mark end = device_.mark();
  phase.reset();
  sample.skipped = outcome.skipped;
  sample.gradient_norm = outcome.gradient_norm;

  fill_times(micro_batches, end, sample);
  sample.loss = loss_sum.item<double>() / static_cast<double>(micro_batches_);
  return sample;
}

void Trainer::fill_times(const std::vector<MicroBatchMarks>& micro_batches, Mark end,
                         StepSample& sample) {
  const auto between_ns = [this](Mark from, Mark to) {
    return device_.time_of(to) - device_.time_of(from);
  };
  step_begin_ns_ = device_.time_of(micro_batches.front().forward_begin);
  sample.step_ms = to_ms(device_.time_of(end) - step_begin_ns_);
  for (const auto& [forward_begin, forward_end, backward] : micro_batches) {
    std::int64_t update_ns = 0;
    for (const auto& [begin, done] : backward.updates) update_ns += between_ns(begin, done);
    sample.forward_ms += to_ms(between_ns(forward_begin, forward_end));
    sample.backward_ms += to_ms(between_ns(forward_end, backward.last_gradient));
    sample.exposed_ms +=
        to_ms(between_ns(backward.last_gradient, backward.synchronised) - update_ns);
    sample.optimizer_ms += to_ms(update_ns);
  }
  const BackwardMarks& last = micro_batches.back().backward;
  sample.optimizer_ms += to_ms(between_ns(last.synchronised, end));

  const std::int64_t last_gradient_ns = device_.time_of(last.last_gradient);
  records_ = group_.take_records();
  std::vector<Interval> intervals;
  for (const auto& record : records_) {
    sample.bytes += record.bytes;
    sample.launch_delay_ms +=
        to_ms(record.start_ns - record.enqueue_ns) / static_cast<double>(records_.size());
    intervals.push_back({record.start_ns, record.end_ns});
  }
  sample.collectives = static_cast<std::int64_t>(records_.size());
  sample.communication_ms = to_ms(union_length(intervals));
  for (auto& interval : intervals) interval.end = std::min(interval.end, last_gradient_ns);
  sample.overlapped_ms = to_ms(union_length(intervals));
}

}  // namespace ddprun
