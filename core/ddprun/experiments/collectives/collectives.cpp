// What a collective's experiment says, what is refused, what a rank does, the figures of one
// collective, and the lines through those of several sizes.
#include "ddprun/experiments/collectives/collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <ranges>

#include "ddprun/base/machine_memory.h"
#include "ddprun/base/ranges.h"
#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/group/collective.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/experiments/collectives/collective_trial.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/rank/connected_rank.h"
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

/// Which backend `auto` takes is known when the ranks have met, too late to refuse anything.
void check_backend_is_named(const Experiment& e) {
  refuse_if(e, e.world.comm.backend == BackendKind::automatic, "world.backend",
            {.what = "experiment collectives measures a backend that is named",
             .got = "world.backend auto",
             .expected = "gloo, shm, hierarchical, mpi or nccl",
             .hint = "world: {size: 2, backend: gloo}; a sweep over world.backend compares "
                     "several"});
}

void check_meaning(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  const CollectivesConfig defaults;
  const std::string neighbour = said("collectives.collective", name_of(c.collective));
  refuse_unused(e, !c.reduces() && c.op != defaults.op, "collectives.op", neighbour);
  if (c.collective != CollectiveKind::barrier) return;
  refuse_unused(e, c.bytes != defaults.bytes, "collectives.bytes", neighbour);
  refuse_unused(e, c.dtype != defaults.dtype, "collectives.dtype", neighbour);
  refuse_unused(e, c.in_place != defaults.in_place, "collectives.in_place", neighbour);
  refuse_unused(e, c.memory != defaults.memory, "collectives.memory", neighbour);
}

void check_size(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  if (c.collective == CollectiveKind::barrier || c.elements(e.world.size) > 0) return;
  const std::int64_t least = bytes_of(c.dtype) * (c.slices() ? e.world.size : 1);
  refuse(e, "collectives.bytes",
         {.what = "collectives.bytes has no room for an element of each rank",
          .got = fmt::format("{} bytes of {}", c.bytes, name_of(c.dtype)),
          .expected = fmt::format("at least {}", least),
          .hint = "raise it"});
}

void check_support(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  const BackendKind backend = e.world.comm.backend;
  const std::string lacks = backend_lacks(backend, c.collective, scalar_type(c.dtype), c.op);
  refuse_if(
      e, !lacks.empty(), "collectives.dtype",
      {.what = fmt::format("backend {} has {}", name_of(backend), lacks),
       .got = fmt::format("{} of {} by {}", name_of(c.collective), name_of(c.dtype), name_of(c.op)),
       .expected = "a type and an operation that the backend has",
       .hint = "docs/configuration.md lists what each backend reduces"});
}

void check_exactness(const Experiment& e) {
  const auto& c = e.as<CollectivesConfig>();
  if (c.collective == CollectiveKind::barrier || pattern_levels(c, e.world.size) > 0) return;
  refuse(e, "collectives.dtype",
         {.what = "the data could not be verified: the ranks' sum would be rounded",
          .got = fmt::format("{} by {} on {} ranks", name_of(c.dtype), name_of(c.op), e.world.size),
          .expected = "a type in which sums of small integers are exact",
          .hint = "fewer ranks, or float32"});
}

void check_memory(const Experiment& e, std::int64_t local_ranks) {
  if (!e.world.memory_check) return;
  const std::int64_t each = e.as<CollectivesConfig>().buffer_bytes(e.world.size);
  refuse_above(e, "collectives.bytes", {local_ranks, static_cast<double>(each), "of buffers"},
               static_cast<double>(available_memory()),
               {.what = "the buffers of the ranks exceed this machine's free memory",
                .hint = "smaller collectives.bytes, or fewer ranks"});
}

}  // namespace

Collectives::Collectives()
    : RunnableKind({.name = "collectives",
                    .table_note = "Times in microseconds, of the slowest rank: median over the "
                                  "measured samples (± standard deviation); bandwidths in GB/s",
                    .memory_hint = "smaller collectives.bytes, or fewer ranks",
                    .checks = {{"data_before_timing", "every element right before the timing"},
                               {"data_after_timing", "every element right after it"}}},
                   {.own = CollectivesConfig(),
                    .sections = {world_section(),
                                 own_section<CollectivesConfig>(
                                     "collectives", "which collective is measured, and on what"),
                                 repeat_section(), output_section()}}) {}

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

void Collectives::check(const Experiment& experiment) const {
  check_backend_is_named(experiment);
  check_meaning(experiment);
  check_size(experiment);
  check_support(experiment);
  check_exactness(experiment);
}

std::optional<Account> Collectives::check_machine(const Experiment& experiment,
                                                  const PluginRegistry&,
                                                  std::int64_t local_ranks) const {
  if (experiment.world.device == DeviceKind::cpu) check_memory(experiment, local_ranks);
  return {};
}

nlohmann::json Collectives::work(const Experiment& experiment, const PluginRegistry&) const {
  const auto& c = experiment.as<CollectivesConfig>();
  const std::int64_t elements = c.elements(experiment.world.size);
  return {{"bytes", elements * bytes_of(c.dtype)},
          {"count", c.slices() ? elements / experiment.world.size : elements}};
}

std::vector<std::string> Collectives::run_rank(const Experiment& experiment, const PluginRegistry&,
                                               const RunContext& context) const {
  ConnectedRank rank(experiment, context);
  rank.connect();
  {
    const auto trial = make_collective_trial(experiment.as<CollectivesConfig>(), rank.group());
    measure_trial(
        *trial, rank.group(), experiment.repeat,
        [&](const Sample& sample) { rank.sample_done(sample); }, rank.result());
  }
  for (Sample& sample : rank.result().samples) {
    sample[ranks_per_core] =
        static_cast<double>(context.info.local_size) / rank.affinity().host_cores;
  }
  return rank.finish();
}
const Collectives& collectives() {
  static const Collectives kind;
  return kind;
}

}  // namespace ddprun
