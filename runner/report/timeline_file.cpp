// Phases and collectives as trace events.
#include "runner/report/timeline_file.h"

#include <algorithm>
#include <vector>

#include "ddprun/base/json.h"
#include "ddprun/comm/group/collective.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr int kTraining = 0;  // the thread of that number; from 1 on the lanes of collectives

class RankTimeline {
 public:
  RankTimeline(const RankResult& rank, json& events) : rank_(rank), events_(events) {}

  void add() {
    add_name("process_name", kTraining, "rank " + std::to_string(rank_.rank));
    add_name("thread_name", kTraining, "training");
    for (const PhaseTime& phase : rank_.last_step_phases) {
      add_span(kTraining, phase.phase, phase.begin_ns, phase.end_ns);
    }
    std::vector<std::int64_t> busy_until;  // of each lane
    for (const CollectiveRecord& record : rank_.last_step) {
      const std::string name = std::string(name_of(record.kind)) + ": " + record.label;
      if (record.wait_begin_ns != 0) {
        add_span(kTraining, "wait for " + name, record.wait_begin_ns, record.wait_end_ns);
      }
      auto lane = std::find_if(busy_until.begin(), busy_until.end(),
                               [&record](std::int64_t end) { return end <= record.start_ns; });
      if (lane == busy_until.end()) {
        lane = busy_until.insert(lane, 0);
        add_name("thread_name", static_cast<int>(busy_until.size()), "communication");
      }
      *lane = record.end_ns;
      add_span(static_cast<int>(lane - busy_until.begin()) + 1, name, record.start_ns,
               record.end_ns,
               {{"bytes", record.bytes},
                {"busbw, GB/s", busbw_gb_per_s(record)},
                {"asked for at, us", since_begin_us(record.enqueue_ns)}});
    }
  }

 private:
  double since_begin_us(std::int64_t ns) const {
    return static_cast<double>(ns - rank_.last_step_begin_ns) * 1e-3;
  }

  /// Bus bandwidth, as docs/measurement.md defines it.
  double busbw_gb_per_s(const CollectiveRecord& record) const {
    const std::int64_t ns = record.end_ns - record.start_ns;
    const double bytes = wire_bytes(record.kind, record.bytes, record.ranks);
    return ns > 0 ? bytes / static_cast<double>(ns) : 0;
  }

  void add_name(const char* what, int thread, const std::string& name) {
    events_.push_back({{"ph", "M"},
                       {"pid", rank_.rank},
                       {"tid", thread},
                       {"name", what},
                       {"args", {{"name", name}}}});
  }

  void add_span(int thread, const std::string& name, std::int64_t begin_ns, std::int64_t end_ns,
                json arguments = json::object()) {
    events_.push_back({{"ph", "X"},
                       {"pid", rank_.rank},
                       {"tid", thread},
                       {"name", name},
                       {"ts", since_begin_us(begin_ns)},
                       {"dur", static_cast<double>(end_ns - begin_ns) * 1e-3},
                       {"args", std::move(arguments)}});
  }

  const RankResult& rank_;
  json& events_;
};

}  // namespace

std::string timeline_json(const Row& row) {
  json events = json::array();
  for (const RankResult& rank : row.ranks) RankTimeline(rank, events).add();
  return json_text({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}) + "\n";
}

}  // namespace ddprun
