// Joins, plans, agrees, runs.
#include "runner/command/planned_command.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/comm/launch/launch_environment.h"
#include "runner/launch/launch_agreement.h"

namespace ddprun {

namespace {

void check_launch(const std::optional<RankInfo>& joined, const PlannedCommand& command) {
  const auto& [of, usage] = command.own_ranks;
  if (!joined || of.empty()) return;
  throw ConfigError({.what = fmt::format("{} starts the ranks of {} itself", command.name, of),
                     .where = "the launch that this process joined",
                     .got = joined->launcher,
                     .expected = "no launcher",
                     .hint = std::string(usage)});
}

}  // namespace

std::vector<std::string> refusals_of_all(const std::vector<PlannedFile>& files) {
  std::vector<std::string> out;
  for (const PlannedFile& file : files) {
    if (std::string obstacle = obstacles(file); !obstacle.empty()) out.push_back(obstacle);
  }
  return out;
}

std::vector<std::string> refusals_of_some(const std::vector<PlannedFile>& files, bool from_folder,
                                          bool resume) {
  std::vector<std::string> wrong, impossible;
  for (const PlannedFile& file : files) {
    if (!file.error.empty()) wrong.push_back(file.error);
    if (resume && file.error.empty()) continue;
    if (std::ranges::none_of(file.runs, &std::string::empty, &PlannedRun::not_here)) {
      impossible.push_back(obstacles(file));
    }
  }
  if (impossible.size() == files.size()) return impossible;
  return from_folder ? std::vector<std::string>() : wrong;
}

int run_planned(const Request& request, const PlannedCommand& command) {
  std::optional<RankInfo> joined = rank_info_from_environment();
  if (joined) spdlog::set_pattern(fmt::format("[rank {}] [%^%l%$] %v", joined->rank));
  check_launch(joined, command);
  FileList list;
  try {
    list = collect_files(request.paths);
  } catch (const ConfigError& error) {
    return refuse_plan(joined, error.what());
  }
  const PlanOptions options = {request.overrides, request.plugin_paths, request.output,
                               joined ? joined->world_size : 0};
  PlanCache cache;
  auto files =
      mapped(list.files, [&](const auto& file) { return plan_file(file, options, cache); });
  const std::vector<std::string> refusals = command.refusals(files, list.from_folder);
  if (!refusals.empty()) return refuse_plan(joined, list_text(refusals, "\nerror: "));
  if (joined) {
    try {
      const int status = agree_on_plan(*joined, command.name, files);
      if (status != kExitDone) return status;
    } catch (const ConfigError& error) {
      return refuse_plan(joined, error.what());
    }
  }
  return command.run(std::move(files), std::move(joined));
}

std::string interrupted_words(int signal, const std::string& name, const ResultFolder* folder) {
  return fmt::format("interrupted (signal {}): ", signal) +
         (folder != nullptr && folder->shows("")
              ? "what was done is in " + folder->path("").string()
              : "no result of " + name + " was written");
}

}  // namespace ddprun
