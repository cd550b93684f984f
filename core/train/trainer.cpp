// The timed step: forward, backward with synchronisation, clipping and update.
#include "ddprun/train/trainer.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "ddprun/measure/clock.h"
#include "ddprun/measure/intervals.h"

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
      attention_(make_attention(registry, experiment.attention)),
      precision_(make_precision(registry, experiment.precision)),
      model_(experiment.model, *attention_, static_cast<std::uint64_t>(experiment.train.seed)),
      data_(open_data(experiment.data, experiment.model.vocab_size, experiment.model.context_length,
                      static_cast<std::uint64_t>(experiment.train.seed))),
      micro_batches_(experiment.global_batch() / (group.size() * experiment.micro_batch())) {
  precision_->convert(model_.parameters());
  data_parallel_ = std::make_unique<DataParallel>(model_.parameters(), group, strategy, *precision_,
                                                  experiment.optimizer);
  if (experiment.model.kernels == "fused") model_.use_memory(data_parallel_->buffers().slots());
}

at::Tensor Trainer::forward(std::int64_t index, std::int64_t micro_batch, bool last) {
  const std::int64_t count = experiment_.micro_batch();
  const std::int64_t first = (group_.rank() * micro_batches_ + micro_batch) * count;
  const Batch batch = data_->batch(index, first, count);
  data_parallel_->before_forward(last);
  const auto guard = precision_->forward_guard();
  return model_.loss(batch.ids, batch.targets);
}

StepSample Trainer::step(std::int64_t index, const std::function<void()>& on_synchronised) {
  StepSample sample;
  sample.step = index;
  sample.warmup = index < experiment_.train.warmup_steps;
  const auto& optimizer = experiment_.optimizer;
  const double lr =
      learning_rate(optimizer, index, experiment_.train.warmup_steps + experiment_.train.steps);
  group_.take_records();  // whatever went before is not of this step

  step_begin_ns_ = now_ns();
  std::int64_t now = step_begin_ns_;
  at::Tensor loss_sum;
  BackwardTimes backward;
  for (std::int64_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
    const bool last = micro_batch + 1 == micro_batches_;
    at::Tensor loss = forward(index, micro_batch, last);
    loss_sum = loss_sum.defined() ? loss_sum + loss.detach() : loss.detach();
    if (micro_batches_ > 1) loss = loss / micro_batches_;
    const at::Tensor scaled = precision_->scale_loss(loss);
    if (optimizer.overlap) refuse_scaling(loss, scaled);
    if (optimizer.overlap && last) data_parallel_->begin_step(lr);
    backward = {};
    const std::int64_t forward_end = now_ns();
    sample.forward_ms += to_ms(forward_end - now);
    backward = data_parallel_->backward(scaled, last);
    sample.backward_ms += to_ms(backward.last_gradient_ns - forward_end);
    sample.exposed_ms +=
        to_ms(backward.synchronised_ns - backward.last_gradient_ns - backward.update_ns);
    now = backward.synchronised_ns;
  }
  if (on_synchronised) on_synchronised();
  const StepOutcome outcome = data_parallel_->step(lr, optimizer.clip_norm);
  sample.skipped = outcome.skipped;
  sample.gradient_norm = outcome.gradient_norm;
  const std::int64_t end = now_ns();
  sample.optimizer_ms = to_ms(end - now + backward.update_ns);
  sample.step_ms = to_ms(end - step_begin_ns_);

  sample.loss = loss_sum.item<double>() / static_cast<double>(micro_batches_);
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
  for (auto& interval : intervals) interval.end = std::min(interval.end, backward.last_gradient_ns);
  sample.overlapped_ms = to_ms(union_length(intervals));
  return sample;
}

}  // namespace ddprun
