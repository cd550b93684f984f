// The ranks' records of a collective beside each other, and beside the link.
#include "ddprun/profile/collective_limits.h"

#include <algorithm>
#include <limits>

#include "ddprun/base/clock.h"
#include "ddprun/measure/phase.h"

namespace ddprun {

namespace {

constexpr double kHidden = 0.05;
constexpr double kContention = 1.5;

double waited_ms(const CollectiveRecord& record) {
  return to_ms(record.wait_end_ns - record.wait_begin_ns);
}

std::int64_t backward_end_ns(const StepTimeline& step) {
  std::int64_t end_ns = 0;
  for (const TimeSpan& phase : step.phases) {
    if (phase.name == to_string(Phase::backward)) end_ns = std::max(end_ns, phase.end_ns);
  }
  return end_ns;
}

CollectiveLimit limit_of(const LimitedCollective& of, double latency_ms, std::int64_t end_ns) {
  if (of.record.wait_begin_ns == 0) return CollectiveLimit::unknown;
  if (of.waited_ms <= kHidden * of.time_ms) return CollectiveLimit::hidden;
  if (of.exposed_ms < of.waited_ms / 2) return CollectiveLimit::slow_rank;
  if (!of.link_ms) return CollectiveLimit::unknown;
  if (of.time_ms > kContention * *of.link_ms) return CollectiveLimit::contention;
  if (latency_ms > *of.link_ms / 2) return CollectiveLimit::latency;
  const bool late = to_ms(end_ns - of.record.enqueue_ns) < *of.link_ms;
  return late ? CollectiveLimit::late : CollectiveLimit::link;
}

}  // namespace

std::vector<LimitedCollective> limits_of(const std::vector<const StepTimeline*>& ranks,
                                         const LinkCosts& link) {
  std::vector<LimitedCollective> out;
  const StepTimeline& own = *ranks.front();
  if (!comparable(ranks)) return out;
  for (std::size_t i = 0; i < own.collectives.size(); ++i) {
    LimitedCollective of{.record = own.collectives[i],
                         .exposed_ms = std::numeric_limits<double>::max(),
                         .time_ms = std::numeric_limits<double>::max()};
    for (const StepTimeline* rank : ranks) {
      const CollectiveRecord& record = rank->collectives[i];
      of.exposed_ms = std::min(of.exposed_ms, waited_ms(record));
      of.waited_ms += waited_ms(record) / static_cast<double>(ranks.size());
      of.time_ms = std::min(of.time_ms, to_ms(record.end_ns - record.start_ns));
    }
    const CollectiveCost* const cost = cost_of(of.record, link);
    if (cost != nullptr) of.link_ms = cost->ns(of.record.bytes) * 1e-6;
    of.limit = limit_of(of, cost == nullptr ? 0 : cost->latency_us * 1e-3, backward_end_ns(own));
    out.push_back(std::move(of));
  }
  return out;
}

}  // namespace ddprun
