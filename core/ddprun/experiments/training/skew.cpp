// The least wait for each collective, over ranks, and what follows from it.
#include "ddprun/experiments/training/skew.h"

#include <algorithm>
#include <numeric>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/all_gather_values.h"
#include "ddprun/experiments/training/training.h"

namespace ddprun {

namespace {

/// Whether every rank has this number. Ranks of different subgroups may have another.
bool same_on_ranks(std::size_t number, ProcessGroup& group) {
  const auto value = static_cast<float>(number);
  const std::vector<float> least = least_of_ranks({value, -value}, group);
  return least[0] == -least[1];
}

std::int64_t length(const Interval& interval) { return interval.end - interval.begin; }

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<Interval> waits_between(const std::vector<CollectiveRecord>& records,
                                    std::int64_t from_ns, std::int64_t to_ns) {
  std::vector<Interval> waits;
  for (const CollectiveRecord& record : records) {
    if (record.wait_begin_ns == 0) continue;
    waits.push_back({std::max(record.wait_begin_ns, from_ns), std::min(record.wait_end_ns, to_ns)});
  }
  return waits;
}

}  // namespace

std::int64_t waited_between(const std::vector<CollectiveRecord>& records, std::int64_t from_ns,
                            std::int64_t to_ns) {
  return union_length(waits_between(records, from_ns, to_ns));
}

std::int64_t overlapped_between(const std::vector<CollectiveRecord>& records, std::int64_t from_ns,
                                std::int64_t to_ns) {
  std::vector<Interval> ran;
  for (const CollectiveRecord& record : records) {
    ran.push_back({std::max(record.start_ns, from_ns), std::min(record.end_ns, to_ns)});
  }
  // A wait may begin before its collective does, and end after it.
  return union_length(without(std::move(ran), waits_between(records, from_ns, to_ns)));
}

void SkewAccount::add(const std::vector<CollectiveRecord>& records) {
  Step step;
  for (const CollectiveRecord& record : records) {
    step.collectives.push_back({record.start_ns, record.end_ns});
    step.waits_ms.push_back(to_ms(record.wait_end_ns - record.wait_begin_ns));
  }
  step.wire_bytes = wire_bytes(records);
  steps_.push_back(std::move(step));
}

void SkewAccount::settle(std::vector<Sample>& samples, ProcessGroup& group) {
  const Training& q = training();
  std::size_t collectives = 0;
  for (const Step& step : steps_) collectives += step.waits_ms.size();
  if (!same_on_ranks(collectives, group)) {  // then a step is compared as a whole
    for (Step& step : steps_) step.waits_ms.clear();
  }
  std::vector<float> own;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const double synchronized_ms = samples[i].find(q.synchronize_ms).value_or(0);
    own.push_back(static_cast<float>(synchronized_ms - sum(step.waits_ms)));
    for (std::size_t c = 0; c < step.waits_ms.size(); ++c) {
      own.push_back(static_cast<float>(step.waits_ms[c]));
      own.push_back(static_cast<float>(length(step.collectives[c])));
    }
  }
  const std::vector<float> least = least_of_ranks(std::move(own), group);
  auto next = least.begin();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    double exposed_ms = *next++;
    for (std::size_t c = 0; c < step.waits_ms.size(); ++c) {
      exposed_ms += *next++;
      Interval& transfer = step.collectives[c];
      transfer.begin = transfer.end - static_cast<std::int64_t>(*next++);
    }
    if (const auto synchronized_ms = samples[i].find(q.synchronize_ms)) {
      samples[i][q.exposed_ms] = exposed_ms;
      samples[i][q.skew_ms] = std::max(0.0, *synchronized_ms - exposed_ms);  // float32 rounds
    }
    const std::int64_t transfer_ns = union_length(step.collectives);
    if (step.wire_bytes > 0 && transfer_ns > 0) {
      samples[i][q.busbw_gb_per_s] = step.wire_bytes / static_cast<double>(transfer_ns);
    }
  }
  steps_.clear();
}

}  // namespace ddprun
