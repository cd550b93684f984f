// Lanes of collectives, and waits cut to what the ranks have in common.
#include "ddprun/profile/step_timeline.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "ddprun/measure/phase.h"

namespace ddprun {

namespace {

Interval wait_of(const CollectiveRecord& record) {
  return {record.wait_begin_ns, record.wait_end_ns};
}

std::vector<Interval> spans_named(const std::vector<TimeSpan>& spans, std::string_view name) {
  std::vector<Interval> out;
  for (const TimeSpan& span : spans) {
    if (span.name == name) out.push_back({span.begin_ns, span.end_ns});
  }
  return out;
}

/// What is waited beside the waits for single collectives; for these too if they are not compared.
std::vector<Interval> other_waits(const StepTimeline& rank, bool compared) {
  std::vector<Interval> waits = spans_named(rank.phases, to_string(Phase::synchronize));
  std::vector<Interval> holes = spans_named(rank.phases, "update");
  for (const CollectiveRecord& record : rank.collectives) {
    (compared ? holes : waits).push_back(wait_of(record));
  }
  return without(std::move(waits), std::move(holes));
}

/// The last `exposed_ns` of `waits` are exposed, what is before them is skew.
void split(const std::vector<Interval>& waits, std::int64_t exposed_ns, Waits& out) {
  std::int64_t skew_ns = union_length(waits) - exposed_ns;
  for (const auto& [begin, end] : waits) {
    const std::int64_t cut = std::min(end, begin + skew_ns);
    if (cut > begin) out.skew.push_back({begin, cut});
    if (end > cut) out.exposed.push_back({cut, end});
    skew_ns -= cut - begin;
  }
}

}  // namespace

std::int64_t StepTimeline::end_ns() const {
  std::int64_t end = begin_ns;
  for (const TimeSpan& phase : phases) end = std::max(end, phase.end_ns);
  for (const CollectiveRecord& record : collectives) end = std::max(end, record.end_ns);
  return end;
}

bool comparable(const std::vector<const StepTimeline*>& ranks) {
  return std::ranges::all_of(ranks, [&](const StepTimeline* rank) {
    return rank->collectives.size() == ranks.front()->collectives.size();
  });
}

std::vector<int> lanes_of(const std::vector<CollectiveRecord>& collectives) {
  std::vector<std::int64_t> busy_until;  // of each lane
  std::vector<int> lanes;
  for (const CollectiveRecord& record : collectives) {
    auto lane = std::ranges::find_if(
        busy_until, [&record](std::int64_t end) { return end <= record.start_ns; });
    if (lane == busy_until.end()) lane = busy_until.insert(lane, 0);
    *lane = record.end_ns;
    lanes.push_back(static_cast<int>(lane - busy_until.begin()));
  }
  return lanes;
}

std::vector<Waits> waits_of(const std::vector<const StepTimeline*>& ranks) {
  std::vector<Waits> out(ranks.size());
  const bool compared = !ranks.empty() && comparable(ranks);
  /// Cuts that wait of each rank to the shortest of them.
  const auto add = [&](const auto& waits_of_rank) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const StepTimeline* rank : ranks) {
      least = std::min(least, union_length(waits_of_rank(*rank)));
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) split(waits_of_rank(*ranks[r]), least, out[r]);
  };
  for (std::size_t c = 0; compared && c < ranks.front()->collectives.size(); ++c) {
    add([c](const StepTimeline& rank) { return std::vector{wait_of(rank.collectives[c])}; });
  }
  add([compared](const StepTimeline& rank) { return other_waits(rank, compared); });
  for (Waits& waits : out) {
    waits.exposed = union_of(std::move(waits.exposed));
    waits.skew = union_of(std::move(waits.skew));
  }
  return out;
}

}  // namespace ddprun
