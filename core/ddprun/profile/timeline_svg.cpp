// Lanes of bars over a common axis, as SVG.
#include "ddprun/profile/timeline_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ddprun/base/clock.h"
#include "ddprun/base/text.h"
#include "ddprun/measure/intervals.h"
#include "ddprun/profile/svg.h"

namespace ddprun {

namespace {

constexpr double kLeft = 106, kWidth = 820, kRight = 94, kTop = 64, kBottom = 52;
constexpr double kPhase = 17, kUnit = 12, kTicks = 6, kBar = 13, kGap = 9;
constexpr double kHead = 20;        // of a row
constexpr double kBold = 13.5;      // font of the width that 12 has in bold
constexpr double kThin = 1;         // what is narrower becomes one bar with its neighbours
constexpr double kThinnest = 0.05;  // what is narrower is not drawn

const std::map<std::string_view, const char*> kPhaseColours = {{"forward", palette::kLightBlue},
                                                               {"backward", palette::kBlue},
                                                               {"optimizer", palette::kGrey},
                                                               {"update", palette::kGrey}};
constexpr const char *kExposed = palette::kRed, *kSkew = palette::kPink,
                     *kCommunication = palette::kOrange;

struct DrawnRow {
  std::string name;
  std::vector<const StepTimeline*> ranks = {};  // of the last step, all of them
  std::vector<Waits> waits = {};                // of each
  std::int64_t step_ns = 0;                     // the longest of a rank

  std::string words() const;
};

std::string in_ms(std::int64_t ns) {
  return fmt::format("{:.{}f} ms", to_ms(ns), to_ms(ns) < 1000 ? 1 : 0);
}

std::string in_mb(std::int64_t bytes) {
  return bytes < 10'000 ? fmt::format("{} B", bytes)
                        : fmt::format("{:.2f} MB", static_cast<double>(bytes) * 1e-6);
}

std::string DrawnRow::words() const {
  if (ranks.empty()) return "nothing was measured";
  return fmt::format(
      "step {}, exposed {}{}", in_ms(step_ns), in_ms(union_length(waits.front().exposed)),
      ranks.size() <= kDrawnRanks ? ""
                                  : fmt::format(", {} of {} ranks", kDrawnRanks, ranks.size()));
}

/// Without ranks if nothing can be drawn of it.
DrawnRow drawn(const RowTimeline& row) {
  DrawnRow out{row.name};
  for (const std::vector<StepTimeline>* steps : row.ranks) {
    if (steps->empty() || steps->back().phases.empty()) return {row.name};
    const StepTimeline& last = steps->back();
    out.ranks.push_back(&last);
    out.step_ns = std::max(out.step_ns, last.end_ns() - last.begin_ns);
  }
  out.waits = waits_of(out.ranks);
  return out;
}

bool communicates(const DrawnRow& row) {
  return std::ranges::any_of(row.ranks,
                             [](const StepTimeline* rank) { return !rank->collectives.empty(); });
}

/// How many rows communicate and are not drawn is added to `left_out`.
std::vector<DrawnRow> drawn_rows(const std::vector<RowTimeline>& of,
                                 const std::vector<std::int64_t>& chosen, std::size_t& left_out) {
  std::vector<DrawnRow> rows;
  for (const std::int64_t number : chosen) {
    rows.push_back(drawn(of.at(static_cast<std::size_t>(number - 1))));
  }
  if (!chosen.empty()) return rows;
  for (const RowTimeline& each : of) {
    DrawnRow row = drawn(each);
    if (!communicates(row)) continue;
    if (rows.size() < kDrawnRows) {
      rows.push_back(std::move(row));
    } else {
      ++left_out;
    }
  }
  return rows;
}

int lane_count(const std::vector<int>& lanes) {
  return lanes.empty() ? 0 : *std::ranges::max_element(lanes) + 1;
}

double height_of(const StepTimeline& rank) {
  const int lanes = std::max(1, lane_count(lanes_of(rank.collectives)));
  return kPhase + (rank.units.empty() ? 0 : kUnit) + kTicks + kBar * lanes + kGap;
}

double height_of(const DrawnRow& row) {
  double height = kHead + kGap;
  for (std::size_t r = 0; r < row.ranks.size() && r < kDrawnRanks; ++r) {
    height += height_of(*row.ranks[r]);
  }
  return height + (row.ranks.empty() ? kPhase : 0);
}

double height_of(const std::vector<DrawnRow>& rows) {
  double height = kTop + kBottom;
  for (const DrawnRow& row : rows) height += height_of(row);
  return height;
}

double longest_ms(const std::vector<DrawnRow>& rows) {
  std::int64_t longest = 1;
  for (const DrawnRow& row : rows) longest = std::max(longest, row.step_ns);
  return to_ms(longest);
}

std::string description(const std::vector<DrawnRow>& rows) {
  std::string out = "Phases, waits and collectives of each rank as bars over one axis of time.";
  for (const DrawnRow& row : rows) out += fmt::format(" {}: {}.", row.name, row.words());
  return out;
}

class TimelinePicture {
 public:
  explicit TimelinePicture(const std::vector<DrawnRow>& rows)
      : rows_(rows),
        ms_{kLeft, kWidth, longest_ms(rows)},
        bottom_(height_of(rows) - kBottom),
        svg_(kLeft + kWidth + kRight, height_of(rows), "The last step, rank by rank",
             description(rows)) {}

  std::string text(std::size_t left_out) {
    add_legend();
    for (const double at : ticks(ms_.range)) svg_.line(ms_(at), kTop, ms_(at), bottom_, "grid");
    for (const DrawnRow& row : rows_) add_row(row);
    svg_.time_axis(ms_, bottom_, "time in the step, ms");
    if (left_out > 0) {
      svg_.text(16, bottom_ + 40,
                fmt::format("{} more (report.timeline chooses)", counted(left_out, "row")),
                "class=\"dim\"");
    }
    return svg_.finish();
  }

 private:
  void add_legend() {
    double x = kLeft;
    for (const auto& [colour, words] : {std::pair{palette::kLightBlue, "forward"},
                                        {palette::kBlue, "backward"},
                                        {palette::kGrey, "optimizer"},
                                        {kCommunication, "communication"},
                                        {kExposed, "exposed"},
                                        {kSkew, "skew"}}) {
      x += svg_.legend(x, 48, colour, words) + 16;
    }
    svg_.line(x + 4, 40, x + 4, 47);
    svg_.text(x + 12, 48, "gradient ready");
  }

  void add_row(const DrawnRow& row) {
    svg_.text(16, y_ + kHead - 6, row.name, "class=\"bold\"");
    if (row.ranks.empty()) {
      svg_.text(kLeft, y_ + kHead + 8, row.words(), "class=\"dim\"");
      y_ += height_of(row);
      return;
    }
    svg_.text(std::max(kLeft + 6, 26 + text_width(row.name, kBold)), y_ + kHead - 6, row.words());
    y_ += kHead;
    for (std::size_t r = 0; r < row.ranks.size() && r < kDrawnRanks; ++r) {
      add_rank(r, *row.ranks[r], row.waits[r]);
    }
    y_ += kGap;
  }

  void add_rank(std::size_t number, const StepTimeline& rank, const Waits& waits) {
    begin_ns_ = rank.begin_ns;
    svg_.text(kLeft - 8, y_ + kPhase - 4, fmt::format("rank {}", number), "text-anchor=\"end\"");
    svg_.text(end_of(rank) + 6, y_ + kPhase - 4, in_ms(rank.end_ns() - rank.begin_ns));
    add_phases(rank, waits);
    y_ += kPhase;
    add_units(rank);
    add_gradients(rank);
    y_ += kTicks;
    add_collectives(rank);
    y_ += kGap;
  }

  double x(std::int64_t ns) const { return ms_(to_ms(ns - begin_ns_)); }
  double end_of(const StepTimeline& rank) const { return x(rank.end_ns()); }
  Box bar(std::int64_t begin_ns, std::int64_t end_ns, double height) const {
    return {x(begin_ns), y_, x(end_ns) - x(begin_ns), height};
  }

  /// The first of `words` that fits into the bar.
  void write_in(const Box& bar, const std::vector<std::string>& words, const char* style) {
    for (const std::string& each : words) {
      if (text_width(each, Svg::kSmall) + 4 > bar.width) continue;
      svg_.text(bar.x + bar.width / 2, bar.y + bar.height / 2 + 3.4, each,
                fmt::format("class=\"in {}\"", style));
      return;
    }
  }

  Box widest_of(const std::vector<Interval>& intervals) const {
    Box widest;
    for (const auto& [begin, end] : intervals) {
      const Box box = bar(begin, end, kPhase);
      if (box.width > widest.width) widest = box;
    }
    return widest;
  }

  /// A name stands where nothing covers its phase.
  void add_phases(const StepTimeline& rank, const Waits& waits) {
    std::vector<Interval> all = waits.exposed;
    all.insert(all.end(), waits.skew.begin(), waits.skew.end());
    for (const auto& [name, begin_ns, end_ns] : rank.phases) {
      const auto colour = kPhaseColours.find(name);
      if (colour == kPhaseColours.end()) continue;  // of synchronize the waits are drawn
      svg_.box(bar(begin_ns, end_ns, kPhase), colour->second,
               fmt::format("{}, {}", name, in_ms(end_ns - begin_ns)));
      write_in(widest_of(without({{begin_ns, end_ns}}, all)), {name},
               name == "backward" ? "pale" : "on");
    }
    add_waits(waits, all);
  }

  /// Red with pink upon it where that is wide enough to be seen: each of many collectives may have
  /// a little skew. The number stands where red is widest.
  void add_waits(const Waits& waits, const std::vector<Interval>& all) {
    for (const auto& [begin, end] : union_of(all)) {
      const Box box = bar(begin, end, kPhase);
      if (box.width < kThinnest) continue;
      svg_.box(box, kExposed, fmt::format("waits {}", in_ms(end - begin)));
    }
    std::vector<Interval> pink;
    for (const auto& [begin, end] : waits.skew) {
      const Box box = bar(begin, end, kPhase);
      if (box.width < kThin) continue;
      svg_.box(box, kSkew, fmt::format("skew {}", in_ms(end - begin)));
      if (box.width > kBar) pink.push_back({begin, end});
    }
    const std::string ms = in_ms(union_length(waits.exposed));
    write_in(widest_of(without(all, std::move(pink))), {"exposed " + ms, ms}, "on");
  }

  void add_units(const StepTimeline& rank) {
    if (rank.units.empty()) return;
    for (const auto& [name, begin_ns, end_ns] : rank.units) {
      const Box box = bar(begin_ns, end_ns, kUnit);
      svg_.box(box, ".unit", fmt::format("{}, {}", name, in_ms(end_ns - begin_ns)));
      write_in(box, {name, name.substr(name.rfind('.') + 1)}, "dim");
    }
    y_ += kUnit;
  }

  void add_gradients(const StepTimeline& rank) {
    std::string corners;
    for (const std::int64_t ready_ns : rank.gradients_ns) {
      corners += fmt::format("M{:.1f} {:.1f}v{:.0f}", x(ready_ns), y_, kTicks - 2);
    }
    if (!corners.empty()) svg_.path(corners, "class=\"axis\"");
  }

  void add_collectives(const StepTimeline& rank) {
    const std::vector<int> lanes = lanes_of(rank.collectives);
    const int count = lane_count(lanes);
    svg_.text(kLeft - 8, y_ + kBar - 3, "communication",
              "class=\"dim\" font-size=\"10\" text-anchor=\"end\"");
    if (count > 0) {
      std::vector<Interval> all;
      for (const CollectiveRecord& each : rank.collectives) {
        all.push_back({each.start_ns, each.end_ns});
      }
      svg_.text(std::max(end_of(rank), kLeft) + 6, y_ + kBar - 3,
                in_ms(union_length(std::move(all))), "class=\"dim\"");
    }
    for (int lane = 0; lane < count; ++lane) {
      std::vector<const CollectiveRecord*> records;
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        if (lanes[i] == lane) records.push_back(&rank.collectives[i]);
      }
      add_lane(records);
      y_ += kBar;
    }
    if (count == 0) y_ += kBar;
  }

  /// Bars that are too thin to be seen stand together in one.
  void add_lane(const std::vector<const CollectiveRecord*>& records) {
    for (std::size_t i = 0; i < records.size();) {
      std::size_t next = i + 1;
      std::int64_t bytes = records[i]->bytes;
      while (next < records.size() && x(records[next]->end_ns) - x(records[i]->start_ns) < kThin) {
        bytes += records[next++]->bytes;
      }
      const std::int64_t end_ns = records[next - 1]->end_ns;
      Box box = bar(records[i]->start_ns, end_ns, kBar - 1);
      box.width = std::max(0.5, box.width - 0.4);  // neighbours stay apart
      const std::string what =
          next - i > 1 ? fmt::format("{} collectives", next - i)
                       : fmt::format("{}: {}", name_of(records[i]->kind), records[i]->label);
      const std::string size = in_mb(bytes);
      svg_.box(box, kCommunication,
               fmt::format("{}, {}, {}", what, size, in_ms(end_ns - records[i]->start_ns)));
      write_in(box, {fmt::format("{}, {}", records[i]->label, size), records[i]->label, size},
               "on");
      i = next;
    }
  }

  const std::vector<DrawnRow>& rows_;
  const Scale ms_;
  const double bottom_;
  Svg svg_;
  double y_ = kTop;
  std::int64_t begin_ns_ = 0;
};

}  // namespace

std::string timeline_svg(const std::vector<RowTimeline>& rows,
                         const std::vector<std::int64_t>& chosen) {
  std::size_t left_out = 0;
  const std::vector<DrawnRow> drawn = drawn_rows(rows, chosen, left_out);
  return drawn.empty() ? std::string() : TimelinePicture(drawn).text(left_out);
}

}  // namespace ddprun
