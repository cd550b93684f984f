// The figures of one collective, and the lines through those of several sizes.
#include "ddprun/experiments/collectives/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <ranges>

#include "ddprun/base/ranges.h"
#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/group/collective.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

namespace {

using nlohmann::json;

double bytes_of(const RunStatistics& run) { return run.run().work.at("bytes").get<double>(); }

double median_us(const RunStatistics& run) { return run.median(collectives().time_us); }

CollectiveKind collective_of(const RunStatistics& run) {
  return value_named<CollectiveKind>(
      run.run().config.at("collectives").at("collective").get<std::string>());
}

/// GB/s of bytes in microseconds.
Figure bandwidth(double bytes, double us) {
  return bytes > 0 && us > 0 ? Figure{bytes / us * 1e-3} : Figure{};
}

/// What the runs of one line have in common: all that tells them apart but their size.
std::string sizes_of(const RunStatistics& run) {
  const auto facts = collectives().facts(run.run());
  return fmt::format("{}, {} ranks", fmt::join(std::views::values(facts), ", "),
                     run.run().ranks.size());
}

json line_json(const RunStatistics& run, const LineFit& fit) {
  json out = {{"kind", collectives().name()},
              {"ranks", run.run().ranks.size()},
              {"latency_us", fit.intercept},
              {"latency_error_us", fit.intercept_error},
              {"us_per_byte", fit.slope},
              {"us_per_byte_error", fit.slope_error},
              {"rms_relative_error", fit.rms_relative},
              {"points", fit.points}};
  for (const auto& [title, value] : collectives().facts(run.run())) out[title] = value;
  return out;
}

/// A line through times that scatter can meet the axis anywhere near 0, below it too.
std::string latency_words(const LineFit& fit) {
  const double most = fit.intercept + 2 * fit.intercept_error;
  if (fit.intercept > fit.intercept_error) {
    return fmt::format("latency {:.3g} ± {:.2g} µs", fit.intercept, fit.intercept_error);
  }
  return most > 0 ? fmt::format("latency below {:.2g} µs", most)
                  : std::string("no latency (small sizes take less than the line says)");
}

/// The line through the medians of rows that differ in size; no text if they allow none.
Finding fitted(const std::string& name, const std::vector<RowRuns>& rows) {
  std::vector<double> bytes, times;
  for (const RowRuns& row : rows) {
    bytes.push_back(bytes_of(*row.front()));
    times.push_back(mean_figure(row, collectives().time_us));
  }
  const auto fit = fit_line(bytes, times);
  if (!fit) return {};
  const std::string speed = fit->slope > 0
                                ? fmt::format("bandwidth {:.3g} ± {:.2g} GB/s", 1e-3 / fit->slope,
                                              1e-3 * fit->slope_error / (fit->slope * fit->slope))
                                : std::string("no bandwidth (time does not grow with size)");
  return {
      fmt::format("{}: {}, {}; the line through {} sizes misses their medians by {} % (root "
                  "mean square)",
                  name, latency_words(*fit), speed, fit->points, percent_text(fit->rms_relative)),
      line_json(*rows.front().front(), *fit)};
}

/// Ranks that shared a core waited for their turn on it, too.
std::string crowded(const std::vector<const RunStatistics*>& runs) {
  std::map<std::size_t, double> crowds;  // ranks -> on a core
  for (const RunStatistics* run : runs) {
    const double on_a_core = (*run)[collectives().ranks_per_core].steps.max;
    if (on_a_core > 1) crowds[run->run().ranks.size()] = on_a_core;
  }
  const auto text = [](const auto& crowd) {
    return fmt::format("{} ranks, {:.3g} a core", crowd.first, crowd.second);
  };
  return list_text(mapped(crowds, text), "; ");
}

}  // namespace

Collectives::Collectives(KindFile file)
    : RunnableKind({.name = "collectives",
                    .table_note = "Times in microseconds, of the slowest rank: median over the "
                                  "measured samples (± standard deviation); bandwidths in GB/s",
                    .memory_hint = "smaller collectives.bytes, or fewer ranks",
                    .checks = {{"data_before_timing", "every element right before the timing"},
                               {"data_after_timing", "every element right after it"}}},
                   std::move(file)) {}

std::string Collectives::in_short(const RunStatistics& run) const {
  const Figure busbw = find_busbw(run);
  return fmt::format("{:.1f} µs{}", median_us(run),
                     busbw.value ? fmt::format(", busbw {:.3g} GB/s", *busbw.value) : "");
}

std::vector<std::pair<std::string, std::string>> Collectives::facts(const Run& run) const {
  const json& own = run.config.at("collectives");
  const auto text = [&own](const char* key) { return own.at(key).get<std::string>(); };
  const std::string collective = text("collective");
  const CollectiveKind kind = value_named<CollectiveKind>(collective);
  const bool buffers = kind != CollectiveKind::barrier;
  const bool in_place = own.at("in_place").get<bool>();
  return {{"backend", run.config.at("world").at("backend").get<std::string>()},
          {"collective", collective},
          {"type", buffers ? text("dtype") : "–"},
          {"op", reduces(kind) ? text("op") : "–"},
          {"place", !buffers   ? "–"
                    : in_place ? "in place"
                               : "out of place"},
          {"memory", buffers ? text("memory") : "–"}};
}

std::vector<Finding> Collectives::findings(const std::vector<const RunStatistics*>& runs) const {
  Groups<std::vector<RowRuns>> lines;
  for (const RowRuns& row : by_row(runs)) {
    const RunStatistics& run = *row.front();
    if (!run.timed() || bytes_of(run) <= 0) continue;
    lines[sizes_of(run)].push_back(row);
  }
  std::vector<Finding> out;
  for (const auto& [name, rows] : lines) {
    Finding finding = fitted(name, rows);
    if (!finding.text.empty()) out.push_back(std::move(finding));
  }
  if (const std::string crowds = crowded(runs); !crowds.empty()) {
    out.push_back(
        {"more ranks than cores: " + crowds + ": ranks took turns, which is in the times"});
  }
  return out;
}

const Quantity& Collectives::time_over(const char* key, OverSteps over_steps, const char* title,
                                       int drop_order) {
  return declare(key, "µs", "",
                 {.of = &time_us,
                  .over_ranks = OverRanks::max,
                  .over_steps = over_steps,
                  .title = title,
                  .drop_order = drop_order});
}

Figure Collectives::find_algbw(const RunStatistics& run) {
  return bandwidth(bytes_of(run), median_us(run));
}

Figure Collectives::find_busbw(const RunStatistics& run) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(run));
  const auto ranks = static_cast<int>(run.run().ranks.size());
  return bandwidth(wire_bytes(collective_of(run), bytes, ranks), median_us(run));
}

}  // namespace ddprun
