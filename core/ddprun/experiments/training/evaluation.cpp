// When held-out data is evaluated, and on which samples.
#include "ddprun/experiments/training/evaluation.h"

#include <algorithm>
#include <iterator>
#include <numbers>
#include <vector>

#include "ddprun/experiments/training/training_config.h"
#include "ddprun/model/generate.h"

namespace ddprun {

namespace {

/// Not the experiment's: runs that differ in their seed are judged on the same samples.
constexpr std::uint64_t kSeed = 0x6576616c756174;

}  // namespace

Evaluation::Evaluation(const Experiment& experiment, Trainer& trainer, const ProcessGroup& group)
    : experiment_(experiment), trainer_(trainer), group_(group), codec_(training(experiment).data) {
  const TrainingConfig& config = training(experiment);
  if (config.train.eval.every == 0) return;
  data_ = open_data(config.eval_data(), config.model.vocab_size, config.model.context_length, kSeed,
                    global_batch(experiment));
  check_planned(*data_, config.eval_data(), planned_hash(experiment, kEvalPath));
  if (codec_.known()) bytes_per_token_ = find_bytes_per_token();
}

double Evaluation::find_bytes_per_token() const {
  if (training(experiment_).data.source == DataKind::text) return 1;
  double bytes = 0, tokens = 0;
  for (std::int64_t batch = 0; batch < training(experiment_).train.eval.batches; ++batch) {
    const at::Tensor targets =
        data_->batch(batch, 0, global_batch(experiment_)).targets.contiguous();
    const auto* const begin = targets.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> counted;
    std::copy_if(begin, begin + targets.numel(), std::back_inserter(counted),
                 [](std::int64_t target) { return target >= 0; });
    bytes += static_cast<double>(codec_.text_bytes(counted));
    tokens += static_cast<double>(counted.size());
  }
  return bytes / tokens;
}

std::optional<double> Evaluation::bits_per_byte(double loss) const {
  if (bytes_per_token_ == 0) return std::nullopt;
  return loss / std::numbers::ln2 / bytes_per_token_;
}

bool Evaluation::follows(std::int64_t index, std::int64_t every) const {
  const std::int64_t done = index + 1;
  return every > 0 && (done % every == 0 || done == trainer_.steps().end);
}

std::optional<double> Evaluation::after_step(std::int64_t index) {
  if (!follows(index, training(experiment_).train.eval.every)) return std::nullopt;
  const std::int64_t own = global_batch(experiment_) / group_.size();
  const std::int64_t at_a_time = micro_batch(experiment_);
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t batch = 0; batch < training(experiment_).train.eval.batches; ++batch) {
    for (std::int64_t first = 0; first < own; first += at_a_time, ++count) {
      sum += trainer_.loss_of(data_->batch(batch, group_.rank() * own + first, at_a_time));
    }
  }
  return sum / static_cast<double>(count);
}

std::optional<std::string> Evaluation::text_after_step(std::int64_t index) {
  const TrainingConfig& config = training(experiment_);
  const SampleConfig& sample = config.train.sample;
  if (!follows(index, sample.every)) return std::nullopt;
  const std::vector<std::int64_t> tokens =
      generate([this](const at::Tensor& ids) { return trainer_.logits_of(ids); },
               codec_.encode(sample.prompt), config.model.context_length,
               {.tokens = sample.tokens, .temperature = sample.temperature, .seed = kSeed});
  return sample.prompt + codec_.decode(tokens);
}

void Evaluation::check_unchanged() const {
  if (data_) data_->check_unchanged();
}

}  // namespace ddprun
