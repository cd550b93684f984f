// Fill, barrier, call: sample by sample.
#include "ddprun/experiments/collectives/collective_trial.h"

#include <fmt/format.h>

#include "ddprun/device/device.h"
#include "ddprun/experiments/collectives/collectives.h"
#include "ddprun/rank/repetition.h"

namespace ddprun {

namespace {

Sample take_sample(CollectiveTrial& trial, ProcessGroup& group, std::int64_t index,
                   RankResult& result) {
  Device& device = group.device();
  trial.fill(index);
  // Twice: a rank that slept until the last one came leaves the first too late.
  group.barrier("all came");
  group.barrier("start");
  group.take_records();  // whatever went before is not of this sample
  const Mark begin = device.mark();
  trial.call();
  const Mark end = device.mark();
  Sample sample(collectives());
  sample.step = index;
  const std::int64_t begin_ns = device.time_of(begin);
  sample[collectives().time_us] = static_cast<double>(device.time_of(end) - begin_ns) * 1e-3;
  result.timeline = {{.step = index, .begin_ns = begin_ns, .collectives = group.take_records()}};
  return sample;
}

Check data_check(const char* name, std::int64_t wrong, const CollectiveTrial& trial) {
  return make_check(name, wrong == 0,
                    wrong == 0
                        ? fmt::format("all {} elements are right", trial.compared())
                        : fmt::format("{} of {} elements are wrong", wrong, trial.compared()));
}

}  // namespace

void measure_trial(CollectiveTrial& trial, ProcessGroup& group, const RepeatConfig& repeat,
                   const std::function<void(const Sample&)>& on_sample, RankResult& result) {
  Repetition repetition(repeat, group);
  const auto check = [&](const char* name) {
    Sample& sample = result.samples.back();
    const std::int64_t wrong = trial.wrong(sample.step);
    sample[collectives().wrong] = static_cast<double>(wrong);
    result.checks.push_back(data_check(name, wrong, trial));
  };
  for (std::int64_t index = 0; repetition.goes_on(index); ++index) {
    result.samples.push_back(take_sample(trial, group, index, result));
    result.samples.back().warmup = index < repeat.warmup;
    if (index == 0) check("data_before_timing");
    on_sample(result.samples.back());
  }
  check("data_after_timing");
}

}  // namespace ddprun
