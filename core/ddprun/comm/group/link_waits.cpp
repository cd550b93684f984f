// A replay of calls and waits in the order of their times.
#include "ddprun/comm/group/link_waits.h"

#include <algorithm>
#include <limits>

namespace ddprun {

namespace {

/// Something that the thread does.
struct Event {
  double at = 0;
  bool waits = false;
  std::size_t call = 0;
};

std::vector<Event> events_of(const std::vector<LinkCall>& calls) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    events.push_back({calls[i].asked, false, i});
    if (calls[i].wait_begin) events.push_back({*calls[i].wait_begin, true, i});
  }
  std::ranges::stable_sort(events, {}, &Event::at);
  return events;
}

}  // namespace

double waits_on_link(const std::vector<LinkCall>& calls) {
  std::vector<double> ends(calls.size());
  double free = std::numeric_limits<double>::lowest();  // when the link is
  double waited_until = free;                           // as it was
  double ahead = 0;  // of what was: what was waited there, and is not here
  double waited = 0;
  for (const Event& event : events_of(calls)) {
    const LinkCall& call = calls[event.call];
    const double at = std::max(event.at, waited_until);
    if (!event.waits) {
      free = std::max(free, at - ahead) + call.takes;
      ends[event.call] = free;
      continue;
    }
    const double wait = std::max(0.0, ends[event.call] - (at - ahead));
    waited_until = std::max(at, call.wait_end);
    ahead += waited_until - at - wait;
    waited += wait;
  }
  return waited;
}

const CollectiveCost* cost_of(const CollectiveRecord& record, const LinkCosts& costs) {
  const auto cost = std::ranges::find_if(costs, [&record](const CollectiveCost& each) {
    return each.kind == record.kind && each.ranks == record.ranks;
  });
  return cost == costs.end() ? nullptr : &*cost;
}

std::optional<LinkWaits> link_waits(const std::vector<CollectiveRecord>& records,
                                    const std::vector<std::int64_t>& begins_ns,
                                    const LinkCosts& costs) {
  const bool waits = std::ranges::any_of(
      records, [](const CollectiveRecord& record) { return record.wait_begin_ns != 0; });
  if (!waits) return std::nullopt;
  std::vector<LinkCall> asked, early, without_latency;
  for (const CollectiveRecord& record : records) {
    const CollectiveCost* const cost = cost_of(record, costs);
    if (cost == nullptr) return std::nullopt;
    const auto ns = [](std::int64_t time) { return static_cast<double>(time); };
    LinkCall call{.asked = ns(record.enqueue_ns),
                  .wait_end = ns(record.wait_end_ns),
                  .takes = cost->ns(record.bytes)};
    if (record.wait_begin_ns != 0) call.wait_begin = ns(record.wait_begin_ns);
    asked.push_back(call);
    const auto next = std::ranges::upper_bound(begins_ns, record.enqueue_ns);
    if (next != begins_ns.begin()) call.asked = ns(*std::prev(next));
    early.push_back(call);
    without_latency.push_back(asked.back());
    without_latency.back().takes -= cost->latency_us * 1e3;
  }
  const double bound_ns = waits_on_link(asked);
  const auto ms = [](double ns) { return ns * 1e-6; };
  return LinkWaits{.bound_ms = ms(bound_ns),
                   .earliest_ms = ms(std::min(bound_ns, waits_on_link(early))),
                   .latency_ms = ms(std::max(0.0, bound_ns - waits_on_link(without_latency)))};
}

}  // namespace ddprun
