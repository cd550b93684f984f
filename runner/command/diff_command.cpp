// ddprun diff: experiments in lockstep with the first one, on the terminal and in diff.json.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/measure/environment.h"
#include "runner/command/commands.h"
#include "runner/command/planned_command.h"
#include "runner/compare/lockstep_report.h"
#include "runner/launch/execute.h"
#include "runner/report/result_files.h"
#include "runner/report/result_folder.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr int kDiffSchemaVersion = 1;
constexpr const char* kRecords = "records";

struct Side {
  const PlannedFile* file;
  const PlannedRun* run;
  std::string name() const {
    const std::string& label = run->experiment.label;
    return label.empty() ? file->name : label;
  }
};

std::vector<Side> sides_of(const std::vector<PlannedFile>& files) {
  std::vector<Side> sides;
  for (const PlannedFile& file : files) {
    for (const PlannedRun& run : file.runs) sides.push_back({&file, &run});
  }
  return sides;
}

/// Of a run that the user ended, its signal.
struct Interrupted {
  int signal;
};

class Diff {
 public:
  Diff(const Request& request, std::vector<Side> sides, Executor& executor)
      : request_(request),
        sides_(std::move(sides)),
        executor_(executor),
        terminal_(terminal_of(stdout)),
        folder_(sides_[0].file->output_dir, sides_[0].file->name, utc_now()),
        part_{.folder = folder_.path(kRecords), .steps = request.steps.value_or(0)} {}

  int run() {
    std::filesystem::create_directories(part_.folder);
    const Side& first = sides_.front();
    std::cout << fmt::format("{}: each step from the weights that {} has before it\n",
                             first.file->name, first.name())
              << std::flush;
    json rows = json::array();
    try {
      return compare_all(rows);
    } catch (const Interrupted& by) {
      if (!rows.empty()) write(rows);
      std::cerr << interrupted_words(by.signal, first.file->name, &folder_) << "\n";
      return kExitSignal + by.signal;
    }
  }

 private:
  int compare_all(json& rows) {
    const json lead = measure(sides_.front(), 0);
    if (lead.is_null()) return kExitFailed;
    part_.leads = false;
    part_.steps = lead.at("count");
    int status = kExitDone;
    for (std::size_t i = 1; i < sides_.size(); ++i) {
      json row = compare(sides_[i], i, lead);
      if (!row.contains("passed")) {
        status = kExitFailed;
      } else if (!row.at("passed").get<bool>() && status == kExitDone) {
        status = kExitParts;
      }
      rows.push_back(std::move(row));
    }
    write(rows);
    return status;
  }

  /// What the ranks of one side found; null: they failed, and stderr says how.
  json measure(const Side& side, std::size_t number) {
    const Outcome outcome =
        executor_.lockstep(*side.run, fmt::format("diff/{}/{}", side.file->name, number), part_);
    if (outcome.status == Outcome::Status::interrupted) throw Interrupted{outcome.signal};
    if (outcome.status == Outcome::Status::ok) return outcome.result;
    std::cerr << fmt::format("error: {}: {}\n", side.name(), outcome.reason);
    return nullptr;
  }

  json compare(const Side& side, std::size_t number, const json& lead) {
    json row = measure(side, number);
    if (row.is_null()) {
      row = json::object();
    } else {
      row = judge_lockstep(std::move(row), lead, request_.ulp);
      std::cout << lockstep_text(row, sides_.front().name(), side.name(), terminal_) << std::flush;
    }
    row["name"] = side.name();
    row["config"] = to_json(side.run->resolved);
    return row;
  }

  void write(const json& rows) {
    json result =
        result_head(kDiffSchemaVersion, utc_now(), request_.command_line, describe_environment());
    result["first"] = sides_.front().name();
    result["config"] = to_json(sides_.front().run->resolved);
    result["rows"] = rows;
    folder_.remove(kRecords);
    folder_.write(kDiffFile, json_text(result, 1) + "\n");
    folder_.show();
    std::cout << "results: " << folder_.path("").string() << "\n" << std::flush;
  }

  const Request& request_;
  std::vector<Side> sides_;
  Executor& executor_;
  Terminal terminal_;
  ResultFolder folder_;
  LockstepPart part_;
};

void check_sides(const std::vector<Side>& sides) {
  if (sides.size() < 2) {
    throw ConfigError({.what = "there is nothing to compare with",
                       .where = "the command line",
                       .got = fmt::format("{} experiment", sides.size()),
                       .expected = "two experiments or more: two files, or one with a sweep",
                       .hint = "ddprun diff naive.yaml my.yaml"});
  }
  const Experiment& first = sides[0].run->experiment;
  for (const Side& side : sides) {
    const Experiment& other = side.run->experiment;
    refuse_if(other, other.kind != first.kind, "experiment",
              {.what = "experiments of two kinds have no steps that could be compared",
               .got = other.kind->name(),
               .expected = first.kind->name() + ", as the first",
               .hint = "diff compares experiments that train"});
    first.kind->check_lockstep(first, other, *side.run->registry);
  }
}

std::vector<std::string> refusals(const std::vector<PlannedFile>& files, bool /*from_folder*/) {
  std::vector<std::string> reasons = refusals_of_all(files);
  if (reasons.empty()) check_sides(sides_of(files));
  return reasons;
}

}  // namespace

int diff_command(const Request& request) {
  const auto run = [&request](const std::vector<PlannedFile>& files,
                              std::optional<RankInfo> /*joined*/) {
    ProgressDisplay display(stderr, ProgressDisplay::Mode::silent, terminal_of(stderr).width);
    Executor executor({}, display);
    return Diff(request, sides_of(files), executor).run();
  };
  return run_planned(request,
                     {"diff", refusals, run, {"each experiment", "ddprun diff a.yaml b.yaml"}});
}

}  // namespace ddprun
