// A replay of calls and waits in the order of their times.
#include "ddprun/comm/group/link_waits.h"

#include <algorithm>

#include "ddprun/base/clock.h"

namespace ddprun {

namespace {

/// A collective as the training thread sees it.
struct Call {
  std::int64_t asked_ns = 0;
  std::int64_t wait_begin_ns = 0;  ///< 0: nobody waits
  std::int64_t wait_end_ns = 0;
  double takes_ns = 0;
};

/// Something that the thread does.
struct Event {
  std::int64_t at_ns = 0;
  bool waits = false;
  std::size_t call = 0;
};

std::vector<Event> events_of(const std::vector<Call>& calls) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    events.push_back({calls[i].asked_ns, false, i});
    if (calls[i].wait_begin_ns != 0) events.push_back({calls[i].wait_begin_ns, true, i});
  }
  std::ranges::stable_sort(events, {}, &Event::at_ns);
  return events;
}

/// How long the thread waits, nanoseconds.
double replay(const std::vector<Call>& calls) {
  std::vector<double> ends(calls.size());
  double free_ns = 0;   // when the link is
  double ahead_ns = 0;  // of the record: what was waited there, and is not here
  double waited_ns = 0;
  std::int64_t waited_until_ns = 0;
  for (const Event& event : events_of(calls)) {
    const Call& call = calls[event.call];
    const std::int64_t at_ns = std::max(event.at_ns, waited_until_ns);
    const double now_ns = static_cast<double>(at_ns) - ahead_ns;
    if (!event.waits) {
      free_ns = std::max(free_ns, now_ns) + call.takes_ns;
      ends[event.call] = free_ns;
      continue;
    }
    const double wait_ns = std::max(0.0, ends[event.call] - now_ns);
    waited_until_ns = std::max(at_ns, call.wait_end_ns);
    ahead_ns += static_cast<double>(waited_until_ns - at_ns) - wait_ns;
    waited_ns += wait_ns;
  }
  return waited_ns;
}

}  // namespace

const CollectiveCost* cost_of(const CollectiveRecord& record, const LinkCosts& costs) {
  const auto cost = std::ranges::find_if(costs, [&record](const CollectiveCost& each) {
    return each.kind == record.kind && each.ranks == record.ranks;
  });
  return cost == costs.end() ? nullptr : &*cost;
}

std::optional<LinkWaits> link_waits(const std::vector<CollectiveRecord>& records,
                                    const std::vector<std::int64_t>& begins_ns,
                                    const LinkCosts& costs) {
  std::vector<Call> asked, early, without_latency;
  for (const CollectiveRecord& record : records) {
    const CollectiveCost* const cost = cost_of(record, costs);
    if (cost == nullptr) return std::nullopt;
    Call call{record.enqueue_ns, record.wait_begin_ns, record.wait_end_ns, cost->ns(record.bytes)};
    asked.push_back(call);
    const auto next = std::ranges::upper_bound(begins_ns, call.asked_ns);
    if (next != begins_ns.begin()) call.asked_ns = *std::prev(next);
    early.push_back(call);
    without_latency.push_back(asked.back());
    without_latency.back().takes_ns -= cost->latency_us * 1e3;
  }
  const double bound_ns = replay(asked);
  const auto ms = [](double ns) { return ns * 1e-6; };
  return LinkWaits{.bound_ms = ms(bound_ns),
                   .earliest_ms = ms(std::min(bound_ns, replay(early))),
                   .latency_ms = ms(std::max(0.0, bound_ns - replay(without_latency)))};
}

}  // namespace ddprun
