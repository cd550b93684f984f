// What limits a row: what of its exposed communication is the link's, what comes late, and which
// rank the others wait for; and what would help, as far as the table's own numbers show it.
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/text.h"
#include "ddprun/experiments/training_findings/training_findings.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/measure/straggler.h"
#include "ddprun/result/run_load.h"

namespace ddprun::training_findings {

namespace {

using nlohmann::json;

/// Less is exposed by nothing that one could change.
constexpr double kLeastShare = 0.02, kLeastMs = 0.1;
/// A smaller part is not told.
constexpr double kTold = 0.05;

/// A part of what a row exposes, milliseconds a step, and why.
struct Part {
  const char* limit;
  double ms;
  std::string why;
};

std::string words_of_link(const LinkCosts& link) {
  const CollectiveCost& cost = link.front();
  const std::string latency =
      cost.latency_us > 0 ? text_as("{:.0f} µs a call")(cost.latency_us)
                          : "no latency beside the noise";  // the line meets 0 bytes below 0
  return fmt::format("{:.3g} GB/s and {}", cost.gb_per_s, latency);
}

/// The collective that was asked for last before backward ended, or the first after it.
std::string latest_of(const Run& run) {
  const std::vector<StepTimeline>& steps = run.ranks.front().timeline;
  if (steps.empty() || steps.back().collectives.empty()) return "";
  const auto asked_ns = [](const CollectiveRecord& each) {
    return each.wait_begin_ns == 0 ? 0 : each.enqueue_ns;
  };
  return std::ranges::max_element(steps.back().collectives, {}, asked_ns)->label;
}

std::string why_late(const RowRuns& row) {
  return overlaps(row) ? fmt::format("come too late to be hidden, {} last", latest_of(run_of(row)))
                       : "are asked for when backward is over";
}

std::vector<Part> parts_of(const RowRuns& row, double exposed_ms) {
  const double bound_ms = std::min(exposed_ms, mean_figure(row, training().link_ms));
  const double full_ms = std::min(bound_ms, mean_figure(row, training().link_earliest_ms));
  return {{"link", full_ms, "are more than the link carries while ranks compute"},
          {"late", bound_ms - full_ms, why_late(row)},
          {"contention", exposed_ms - bound_ms, "are beyond what the link takes by itself"}};
}

std::string words_of(const std::vector<Part>& parts, double exposed_ms) {
  std::string words;
  for (const Part& part : parts) {
    if (part.ms < kTold * exposed_ms) continue;
    words += fmt::format("{}{:.1f} {}", words.empty() ? "" : "; ", part.ms, part.why);
  }
  return words;
}

Finding exposed_by(const RowRuns& row) {
  const double exposed_ms = exposed_of(row);
  const LinkCosts& link = run_of(row).ranks.front().link;
  if ((*row.front())[training().link_ms].values == 0) return {};
  if (link.empty() || exposed_ms < std::max(kLeastMs, kLeastShare * step_of(row))) return {};
  std::vector<Part> parts = parts_of(row, exposed_ms);
  std::ranges::stable_sort(parts, std::greater(), &Part::ms);
  const double latency_ms = std::min(exposed_ms, mean_figure(row, training().link_latency_ms));
  std::string text = fmt::format("of {:.1f} ms that {} exposes, {} (link: {}", exposed_ms,
                                 name_of(row), words_of(parts, exposed_ms), words_of_link(link));
  if (latency_ms >= kTold * exposed_ms) text += fmt::format(", {:.1f} ms are latency", latency_ms);
  json value = {{"exposed_ms", exposed_ms},
                {"latency_ms", latency_ms},
                {"limit", parts.front().limit},
                {"gb_per_s", link.front().gb_per_s},
                {"latency_us", link.front().latency_us}};
  for (const Part& part : parts) value[std::string(part.limit) + "_ms"] = part.ms;
  return finding("limit", text + ")", row, std::move(value));
}

/// Of the measured steps of one run.
WorkOfRanks work_of(const Run& run, const std::vector<const Quantity*>& phases) {
  WorkOfRanks work;
  for (const RankResult& rank : run.ranks) {
    std::vector<double>& own = work.emplace_back();
    for (const Sample& sample : rank.samples) {
      if (sample.warmup) continue;
      double ms = 0;
      for (const Quantity* phase : phases) ms += sample.find(*phase).value_or(0);
      own.push_back(ms);
    }
  }
  return work;
}

/// In which phase the rank is behind the most, over its slow steps.
std::string slowest_phase(const Run& run, const Straggler& straggler,
                          const std::vector<const Quantity*>& phases) {
  std::string phase;
  double most = 0;
  for (const Quantity* each : phases) {
    const WorkOfRanks work = work_of(run, {each});
    double behind = 0;
    for (const std::size_t step : straggler.slow_steps) {
      behind += behind_others(work, straggler.rank, step);
    }
    if (behind <= most) continue;
    most = behind;
    phase = each->title;
  }
  return phase;
}

/// Of the others, the median.
double taken_from_others(const Run& run, const RankResult& rank) {
  std::vector<double> taken;
  for (const RankResult& each : run.ranks) {
    if (each.rank != rank.rank) taken.push_back(taken_from(each, run).value_or(0));
  }
  return summarize(std::move(taken)).median;
}

/// Who had the cores of the slow rank, if it lost more of them than the others did.
std::string words_of_taken(double taken, double from_others) {
  if (taken - from_others < RunLoad::kBusy) return {};
  return fmt::format(
      "; other programs took {:.0f} % of a core from it, and {:.0f} % from the others", taken * 100,
      from_others * 100);
}

Finding slow_rank(const RowRuns& row) {
  const std::vector<const Quantity*> phases = {&training().forward_ms, &training().backward_ms,
                                               &training().optimizer_ms};
  if (mean_figure(row, training().collectives) <= 0) return {};  // nobody waits
  const Run& run = run_of(row);
  const WorkOfRanks work = work_of(run, phases);
  const auto straggler = find_straggler(work);
  if (!straggler) return {};
  const std::string phase = slowest_phase(run, *straggler, phases);
  const std::size_t steps = work.front().size();
  const RankResult& slow = run.ranks[straggler->rank];
  const double taken = taken_from(slow, run).value_or(0), others = taken_from_others(run, slow);
  std::string since;
  if (straggler->since) since = fmt::format(" (since measured step {})", *straggler->since + 1);
  const std::string text = fmt::format(
      "rank {} of {} was slow in {} of {}{}, most of it in {}: the others wait for it, "
      "{:.1f} ms a step in the mean of all{}",
      straggler->rank, name_of(row), straggler->slow_steps.size(), counted(steps, "step"), since,
      phase, straggler->behind, words_of_taken(taken, others));
  return finding("slow_rank", text, row,
                 {{"rank", straggler->rank},
                  {"slow_steps", straggler->slow_steps.size()},
                  {"steps", steps},
                  {"since", straggler->since ? json(*straggler->since) : json(nullptr)},
                  {"phase", phase},
                  {"behind_ms", straggler->behind},
                  {"taken", taken},
                  {"taken_from_others", others}});
}

/// Of the step: less is no reason for advice.
constexpr double kMuch = 0.1;
/// Of what the row exposes: from there on the link is what limits it.
constexpr double kBound = 0.5;
/// Another row must expose so much less to be named.
constexpr double kLess = 0.5;

bool exposes_much(const RowRuns& row) {
  return !does_other_work(row) && exposed_of(row) >= kMuch * step_of(row);
}

/// The step that the link allows, whatever hides behind computing, if no less is sent.
Finding bound_by_link(const RowRuns& row) {
  const double exposed_ms = exposed_of(row), step_ms = step_of(row);
  const double link_ms = std::min(exposed_ms, mean_figure(row, training().link_earliest_ms));
  if (link_ms < kBound * exposed_ms) return {};
  const double least_ms = step_ms - exposed_ms + link_ms;
  const std::string text = fmt::format(
      "no order of the same collectives makes a step of {} shorter than {:.1f} ms (it takes "
      "{:.1f}): fewer bytes, a faster link or more to compute would",
      name_of(row), least_ms, step_ms);
  return finding("bound_by_link", text, row, {{"least_ms", least_ms}, {"step_ms", step_ms}});
}

/// Of rows that differ in their strategy alone, the one that exposes least. What hides behind the
/// first row without overlap has a sentence of its own.
Finding exposes_less(const RowRuns& row, const Rows& group) {
  const RowRuns* best = nullptr;
  const RowRuns* open = nullptr;
  for (const RowRuns& other : group) {
    if (does_other_work(other) || mean_figure(other, training().collectives) <= 0) continue;
    if (open == nullptr && !overlaps(other)) open = &other;
    if (best == nullptr || exposed_of(other) < exposed_of(*best)) best = &other;
  }
  if (best == nullptr || exposed_of(*best) > kLess * exposed_of(row)) return {};
  if (&row == open && overlaps(*best)) return {};
  const std::string text = fmt::format(
      "{} exposes {:.1f} ms of its step of {:.1f}; {} exposes {:.1f} of {:.1f}, by its strategy "
      "alone",
      name_of(row), exposed_of(row), step_of(row), name_of(*best), exposed_of(*best),
      step_of(*best));
  return finding("exposes_less", text, row,
                 {{"base", name_of(*best)},
                  {"exposed_ms", exposed_of(row)},
                  {"base_exposed_ms", exposed_of(*best)}});
}

}  // namespace

Sorts of_limits(const Rows& rows) {
  Sorts out(2);
  for (const RowRuns& row : rows) {
    out[0].push_back(exposed_by(row));
    out[1].push_back(slow_rank(row));
  }
  return out;
}

Sorts of_advice(const Rows& rows) {
  Sorts out(2);
  for (const Rows& group : by_work(rows)) {
    for (const RowRuns& row : group) {
      if (!exposes_much(row)) continue;
      Finding bound = bound_by_link(row);
      if (bound.text.empty()) {
        out[1].push_back(exposes_less(row, group));
      } else {
        out[0].push_back(std::move(bound));
      }
    }
  }
  return out;
}

}  // namespace ddprun::training_findings
