// How long collectives take between these ranks while nothing else runs: a few calls of a few
// sizes, and a line through the fastest.
#include "ddprun/comm/group/link_waits.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/all_gather_values.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/statistics.h"

namespace ddprun {

namespace {

constexpr std::int64_t kLeastBytes = 4 << 10, kMostBytes = 4 << 20;
/// How often each size is called, the largest first, a quarter of it next.
constexpr std::array kCalls = {6, 8, 16, 32};
/// Of all calls, if each took as long as the largest. Many ranks on few cores take as much for few.
constexpr double kMostUs = 3e6;
/// As long as they may always take: fast calls are made up to kMore times as often, since another
/// program may slow each one.
constexpr double kUsualUs = 20e3, kMore = 16;
/// Another program may slow one size alone: then all are called again.
constexpr int kAttempts = 4;
constexpr const char* kLabel = "link";

/// `elements`: those of all slices.
void call(ProcessGroup& group, CollectiveKind kind, const at::Tensor& elements) {
  const std::int64_t slice = elements.numel() / group.size();
  const at::Tensor own = elements.narrow(0, group.rank() * slice, slice);
  switch (kind) {
    case CollectiveKind::all_reduce:
      return group.all_reduce(elements, ReduceOp::sum, kLabel, Await::next).wait();
    case CollectiveKind::broadcast:
      return group.broadcast(elements, 0, kLabel, Await::next).wait();
    case CollectiveKind::reduce_scatter:
      return group.reduce_scatter(own, elements, ReduceOp::sum, kLabel, Await::next).wait();
    case CollectiveKind::all_gather:
      return group.all_gather(elements, own, kLabel, Await::next).wait();
    case CollectiveKind::barrier:
      break;
  }
}

/// Microseconds on this rank.
float call_us(ProcessGroup& group, CollectiveKind kind, const at::Tensor& elements) {
  Device& device = group.device();
  group.barrier(kLabel);
  const Mark begin = device.mark();
  call(group, kind, elements);
  const Mark end = device.mark();
  return static_cast<float>(to_ms(device.time_of(end) - device.time_of(begin)) * 1e3);
}

/// The fastest call on this rank, microseconds.
float fastest_us(ProcessGroup& group, CollectiveKind kind, const at::Tensor& elements, int calls) {
  float fastest = std::numeric_limits<float>::max();
  for (int i = 0; i < std::max(1, calls); ++i) {
    fastest = std::min(fastest, call_us(group, kind, elements));
  }
  return fastest;
}

/// How many times kCalls there is time for: the same on all ranks. Of two calls of the largest size
/// the faster one tells, since one may meet another program.
double affordable_times(ProcessGroup& group, CollectiveKind kind, const at::Tensor& elements) {
  const double us = least_of_ranks({fastest_us(group, kind, elements, 2)}, group)[0];
  const double once_us = us * std::accumulate(kCalls.begin(), kCalls.end(), 0);
  return std::min(kMostUs / once_us, std::clamp(kUsualUs / once_us, 1.0, kMore));
}

std::optional<CollectiveCost> measured_cost(ProcessGroup& group, CollectiveKind kind,
                                            std::int64_t most_bytes) {
  const std::int64_t unit = 4 * group.size();  // an element of each rank
  const std::int64_t largest = std::clamp(most_bytes, 16 * kLeastBytes, kMostBytes) / unit * unit;
  const at::Tensor memory =
      group.allocate(largest / 4, at::TensorOptions().device(group.device().torch_device()));
  const double times = affordable_times(group, kind, memory);
  std::vector<double> bytes;
  for (std::size_t i = 0; i < kCalls.size(); ++i) {
    const std::int64_t size = std::max(unit, (largest >> (2 * i)) / unit * unit);
    bytes.push_back(static_cast<double>(size));
  }
  const auto fastest_of_sizes = [&] {
    std::vector<float> us;
    for (std::size_t i = 0; i < kCalls.size(); ++i) {
      const auto elements = static_cast<std::int64_t>(bytes[i]) / 4;
      const int calls = static_cast<int>(times * kCalls[i]);
      us.push_back(fastest_us(group, kind, memory.narrow(0, 0, elements), calls));
    }
    return least_of_ranks(us, group);
  };
  const auto line = rising_line(bytes, fastest_of_sizes);
  if (!line) return std::nullopt;
  return CollectiveCost{kind, group.size(), std::max(0.0, line->intercept), 1e-3 / line->slope};
}

/// Bytes, by CollectiveKind; 0: none was made.
using LargestOfKind = std::vector<std::int64_t>;

/// What a wrong strategy did on one rank alone is measured on all.
LargestOfKind largest_on_any_rank(ProcessGroup& group,
                                  const std::vector<CollectiveRecord>& records) {
  LargestOfKind largest(kChoiceNames<CollectiveKind>.size());
  for (const CollectiveRecord& record : records) {
    std::int64_t& of_kind = largest[static_cast<std::size_t>(record.kind)];
    of_kind = std::max(of_kind, record.bytes);
  }
  for (const LargestOfKind& of_rank : all_gather_values(group, largest)) {
    std::ranges::transform(largest, of_rank, largest.begin(), std::ranges::max);
  }
  return largest;
}

}  // namespace

std::optional<LineFit> rising_line(const std::vector<double>& bytes,
                                   const std::function<std::vector<float>()>& fastest_of_sizes) {
  std::vector<double> least(bytes.size(), std::numeric_limits<double>::max());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::vector<float> us = fastest_of_sizes();
    std::ranges::transform(least, us, least.begin(), std::ranges::min, {},
                           [](float each) { return static_cast<double>(each); });
    const auto line = fit_line(bytes, least);
    if (line && line->slope > 0) return line;
  }
  return std::nullopt;
}

LinkCosts measure_link(ProcessGroup& group, const std::vector<CollectiveRecord>& records) {
  LinkCosts costs;
  if (group.size() == 1) return costs;
  const LargestOfKind largest = largest_on_any_rank(group, records);
  for (std::size_t i = 0; i < largest.size(); ++i) {
    if (largest[i] == 0) continue;  // a barrier has no bytes
    const auto kind = static_cast<CollectiveKind>(i);
    if (const auto cost = measured_cost(group, kind, largest[i])) costs.push_back(*cost);
  }
  return costs;
}

}  // namespace ddprun
