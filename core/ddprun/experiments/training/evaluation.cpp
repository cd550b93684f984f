// When held-out data is evaluated, and on which samples.
#include "ddprun/experiments/training/evaluation.h"

namespace ddprun {

namespace {

/// Not the experiment's: runs that differ in their seed are judged on the same samples.
constexpr std::uint64_t kSeed = 0x6576616c756174;

}  // namespace

Evaluation::Evaluation(const Experiment& experiment, Trainer& trainer, const ProcessGroup& group)
    : experiment_(experiment), trainer_(trainer), group_(group) {
  if (experiment.train.eval.every == 0) return;
  const DataConfig config = experiment.eval_data();
  data_ = open_data(config, experiment.model.vocab_size, experiment.model.context_length, kSeed);
  check_planned(*data_, config, experiment.eval_data_hash);
}

bool Evaluation::follows(std::int64_t index) const {
  const TrainConfig& train = experiment_.train;
  const std::int64_t done = index + 1;
  return data_ && (done % train.eval.every == 0 || done == train.warmup_steps + train.steps);
}

std::optional<double> Evaluation::after_step(std::int64_t index) {
  if (!follows(index)) return std::nullopt;
  const std::int64_t own = experiment_.global_batch() / group_.size();
  const std::int64_t at_a_time = experiment_.micro_batch();
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t batch = 0; batch < experiment_.train.eval.batches; ++batch) {
    for (std::int64_t first = 0; first < own; first += at_a_time, ++count) {
      sum += trainer_.loss_of(data_->batch(batch, group_.rank() * own + first, at_a_time));
    }
  }
  return sum / static_cast<double>(count);
}

void Evaluation::check_unchanged() const {
  if (data_) data_->check_unchanged();
}

}  // namespace ddprun
