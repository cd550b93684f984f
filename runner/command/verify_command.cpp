// ddprun verify: the data-parallel run against one process on the same global batch, parameter by
// parameter.
#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "ddprun/comm/launch_environment.h"
#include "runner/command/commands.h"
#include "runner/launch/execute.h"
#include "runner/launch/plan.h"
#include "runner/report/text_table.h"

namespace ddprun {

namespace {

/// Differences of all parameters together. A difference that is no number is the worst of all.
struct Worst {
  double gradient = 0;
  double parameter = 0;
};

double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

double number(const nlohmann::json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

Worst print_differences(const nlohmann::json& differences, const Terminal& terminal) {
  TextTable table;
  table.columns = {{"parameter", false},
                   {"gradient max"},
                   {"gradient mean"},
                   {"parameter max"},
                   {"parameter mean"}};
  Worst worst;
  const auto cell = [](double value) -> TextTable::Cell { return {fmt::format("{:.3g}", value)}; };
  for (const nlohmann::json& d : differences) {
    const double gradient = number(d.at("gradient_max"));
    const double parameter = number(d.at("parameter_max"));
    worst.gradient = worse(worst.gradient, gradient);
    worst.parameter = worse(worst.parameter, parameter);
    table.lines.push_back({{{d.at("name")},
                            cell(gradient),
                            cell(number(d.at("gradient_mean"))),
                            cell(parameter),
                            cell(number(d.at("parameter_mean")))}});
  }
  std::cout << table.render(terminal.width, terminal.colour);
  return worst;
}

/// One experiment. Returns whether it passed.
bool report(const nlohmann::json& differences, double bound, const Terminal& terminal) {
  const Worst worst = print_differences(differences, terminal);
  const bool within = worst.gradient <= bound;  // false for a NaN
  const bool passed = !differences.empty() && within && !std::isnan(worst.parameter);
  const std::string verdict = fmt::format(
      "{}: largest difference of a gradient {:.3g} ({} {:.3g}), of a parameter after all steps "
      "{:.3g}",
      passed ? "passed" : "FAILED", worst.gradient, within ? "bound" : "not within the bound",
      bound, worst.parameter);
  std::cout << coloured(verdict, passed ? Colour::green : Colour::red, terminal.colour) << "\n";
  std::cout.flush();
  return passed;
}

}  // namespace

int verify_command(const Request& request) {
  std::optional<RankInfo> joined = rank_info_from_environment();
  const int joined_size = joined ? joined->world_size : 0;
  PlanCache cache;
  std::vector<PlannedFile> files;
  bool refused = false;
  for (const auto& file : collect_files(request.paths).files) {
    files.push_back(plan_file(
        file, {request.overrides, request.plugin_paths, request.output, joined_size}, cache));
    const std::string obstacle = obstacles(files.back());
    if (obstacle.empty()) continue;
    std::cerr << "error: " << obstacle << "\n";
    refused = true;
  }
  if (refused) return kExitUsage;

  const Terminal err = terminal_of(stderr);
  ProgressDisplay display(stderr, ProgressDisplay::Mode::silent, err.width);
  Executor executor(std::move(joined), display);
  const Terminal terminal = terminal_of(stdout);
  int status = kExitDone;
  for (const PlannedFile& file : files) {
    for (std::size_t i = 0; i < file.runs.size(); ++i) {
      const PlannedRun& run = file.runs[i];
      const std::string& label = run.experiment.label;
      if (executor.reports()) {
        std::cout << fmt::format(
                         "{}{}: {} rank{} against one process, gradients of the first step, "
                         "parameters after the last\n",
                         file.name, label.empty() ? "" : " " + label, run.experiment.world.size,
                         run.experiment.world.size == 1 ? "" : "s")
                  << std::flush;
      }
      const Outcome outcome = executor.verify(run, fmt::format("verify/{}/{}", file.name, i));
      if (outcome.status == Outcome::Status::interrupted) return kExitSignal + outcome.signal;
      if (outcome.status != Outcome::Status::ok) {
        std::cerr << "error: " << outcome.reason << "\n";
        status = kExitFailed;
        if (executor.joined()) return status;  // its ranks cannot be restarted
      } else if (executor.reports() && !report(outcome.result, request.bound, terminal)) {
        status = kExitFailed;
      }
    }
  }
  return status;
}

}  // namespace ddprun
