// Phases, units, gradients and collectives as trace events.
#include "ddprun/profile/timeline_files.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "ddprun/base/json.h"
#include "ddprun/comm/group/collective.h"

namespace ddprun {

namespace {

using nlohmann::json;

using Sink = std::function<void(std::string_view)>;

constexpr int kTraining = 0;  // the thread of that number; from 1 on the lanes of collectives

/// Writes events, with commas between them.
class Events {
 public:
  explicit Events(const Sink& sink) : sink_(sink) {}

  void add(const json& event) {
    sink_(std::exchange(any_, true) ? ",\n" : "\n");
    sink_(json_text(event));
  }

 private:
  const Sink& sink_;
  bool any_ = false;
};

class RankTimeline {
 public:
  RankTimeline(const std::vector<StepTimeline>& steps, int process, Events& events)
      : steps_(steps), process_(process), events_(events) {}

  void add(const std::string& name) {
    add_words("process_name", kTraining, {{"name", name}});
    add_words("process_sort_index", kTraining, {{"sort_index", process_}});
    add_words("thread_name", kTraining, {{"name", "training"}});
    for (const StepTimeline& step : steps_) {
      for (const auto* spans : {&step.phases, &step.units}) {
        for (const auto& [span, begin_ns, end_ns] : *spans) {
          add_span(kTraining, span, begin_ns, end_ns);
        }
      }
      for (const std::int64_t ready_ns : step.gradients_ns) add_gradient(ready_ns);
      add_collectives(step.collectives);
    }
  }

 private:
  void add_collectives(const std::vector<CollectiveRecord>& collectives) {
    const std::vector<int> lanes = lanes_of(collectives);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const CollectiveRecord& record = collectives[i];
      const std::string name = std::string(name_of(record.kind)) + ": " + record.label;
      if (record.wait_begin_ns != 0) {
        add_span(kTraining, "wait for " + name, record.wait_begin_ns, record.wait_end_ns);
      }
      const int thread = lanes[i] + 1;
      if (named_.insert(thread).second) {
        add_words("thread_name", thread, {{"name", "communication"}});
      }
      add_span(thread, name, record.start_ns, record.end_ns,
               {{"bytes", record.bytes},
                {"busbw, GB/s", busbw_gb_per_s(record)},
                {"asked for at, us", since_begin_us(record.enqueue_ns)}});
    }
  }

  double since_begin_us(std::int64_t ns) const {
    return static_cast<double>(ns - steps_.front().begin_ns) * 1e-3;
  }

  /// Bus bandwidth, as docs/measurement.md defines it.
  static double busbw_gb_per_s(const CollectiveRecord& record) {
    const std::int64_t ns = record.end_ns - record.start_ns;
    const double bytes = wire_bytes(record.kind, record.bytes, record.ranks);
    return ns > 0 ? bytes / static_cast<double>(ns) : 0;
  }

  void add_event(const char* sort, int thread, const std::string& name, json more) {
    more.update({{"ph", sort}, {"pid", process_}, {"tid", thread}, {"name", name}});
    events_.add(more);
  }

  void add_words(const char* what, int thread, json words) {
    add_event("M", thread, what, {{"args", std::move(words)}});
  }

  void add_gradient(std::int64_t ready_ns) {
    add_event("i", kTraining, "gradient ready", {{"ts", since_begin_us(ready_ns)}, {"s", "t"}});
  }

  void add_span(int thread, const std::string& name, std::int64_t begin_ns, std::int64_t end_ns,
                json arguments = json::object()) {
    add_event("X", thread, name,
              {{"ts", since_begin_us(begin_ns)},
               {"dur", static_cast<double>(end_ns - begin_ns) * 1e-3},
               {"args", std::move(arguments)}});
  }

  const std::vector<StepTimeline>& steps_;
  const int process_;
  Events& events_;
  std::set<int> named_;  // threads
};

}  // namespace

void write_timeline_json(const std::vector<RowTimeline>& rows, const Sink& sink) {
  sink("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
  Events events(sink);
  int process = 0;
  for (const RowTimeline& row : rows) {
    for (std::size_t rank = 0; rank < row.ranks.size(); ++rank) {
      const std::vector<StepTimeline>& steps = *row.ranks[rank];
      if (steps.empty()) continue;
      RankTimeline(steps, ++process, events).add(fmt::format("{}, rank {}", row.name, rank));
    }
  }
  sink("\n]}\n");
}

}  // namespace ddprun
