// One call whose memory is counted and whose results are proved, then those that are timed.
#include "ddprun/experiments/attention/attention_kind.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/device/product_speed.h"
#include "ddprun/measure/phase.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/proof/attention/attention_config.h"
#include "ddprun/proof/attention/attention_proof.h"
#include "ddprun/proof/attention/attention_trial.h"
#include "ddprun/rank/repetition.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

namespace {

/// What is the same in every sample.
using Constants = std::vector<std::pair<const Quantity*, double>>;

/// The first call: what comes out of it, and the memory that it took.
struct FirstCall {
  std::unique_ptr<AttentionTrial> trial;
  TrialResults results;
  Constants memory;
};

FirstCall first_call(const AttentionConfig& config, Attention& attention, Device& device) {
  const AttentionKind& q = attention_kind();
  FirstCall first;
  const auto counting = device.count_memory();
  const auto before = static_cast<double>(device.memory().allocated_bytes);
  first.trial = std::make_unique<AttentionTrial>(config, attention, device);
  device.synchronize();
  device.reset_memory();
  TrialMarks marks;
  first.results = first.trial->run(marks, [&] {
    const auto now = static_cast<double>(device.memory().allocated_bytes);
    first.memory.emplace_back(&q.before_backward_bytes, now - before);
  });
  const auto peak = static_cast<double>(device.memory().peak_allocated_bytes);
  first.memory.emplace_back(&q.peak_bytes, peak - before);
  return first;
}

/// Adds the checks to `result`. Returns the errors, or nothing if one is too large.
std::optional<Constants> prove(const AttentionConfig& config, const TrialInputs& inputs,
                               const TrialResults& results, RankResult& result) {
  const AttentionKind& q = attention_kind();
  const std::map<std::string, const Quantity*> quantities = {
      {"output", &q.output_error}, {"dq", &q.dq_error}, {"dk", &q.dk_error}, {"dv", &q.dv_error}};
  Constants out;
  double largest = 0;
  bool right = true;
  for (const ResultError& each : find_errors(config, inputs, results)) {
    result.checks.push_back(check_of(each, config.dtype));
    right = right && result.checks.back().status == CheckStatus::passed;
    out.emplace_back(quantities.at(each.name), each.error);
    largest = std::max(largest, each.error);
  }
  out.emplace_back(&q.error, largest);
  return right ? std::optional(out) : std::nullopt;
}

Sample take_sample(AttentionTrial& trial, Device& device, bool backward, RankResult& result) {
  const AttentionKind& q = attention_kind();
  device.synchronize();
  TrialMarks marks;
  trial.run(marks);
  const std::int64_t begin = device.time_of(marks.begin);
  const std::int64_t middle = device.time_of(marks.forward_end);
  const std::int64_t end = device.time_of(marks.end);
  Sample sample(q);
  sample[q.time_ms] = to_ms(end - begin);
  sample[q.forward_ms] = to_ms(middle - begin);
  if (backward) sample[q.backward_ms] = to_ms(end - middle);
  StepTimeline timeline{.begin_ns = begin, .phases = {{to_string(Phase::forward), begin, middle}}};
  if (backward) timeline.phases.push_back({to_string(Phase::backward), middle, end});
  result.timeline = {std::move(timeline)};
  return sample;
}

}  // namespace

void measure_attention(const AttentionConfig& config, const RepeatConfig& repeat,
                       Attention& attention, ProcessGroup& group,
                       const std::function<void(const Sample&)>& on_sample, RankResult& result) {
  Device& device = group.device();
  FirstCall first = first_call(config, attention, device);
  const auto errors = prove(config, first.trial->inputs(), first.results, result);
  if (!errors) return;
  first.results = {};
  Constants constants = std::move(first.memory);
  constants.insert(constants.end(), errors->begin(), errors->end());
  constants.emplace_back(&attention_kind().product_tflops,
                         product_flops(device, scalar_type(config.dtype)) * 1e-12);
  Repetition repetition(repeat, group);
  for (std::int64_t index = 0; repetition.goes_on(index); ++index) {
    Sample sample = take_sample(*first.trial, device, config.backward(), result);
    sample.step = index;
    sample.warmup = index < repeat.warmup;
    for (const auto& [quantity, value] : constants) sample[*quantity] = value;
    on_sample(sample);
    result.samples.push_back(std::move(sample));
  }
}

}  // namespace ddprun
