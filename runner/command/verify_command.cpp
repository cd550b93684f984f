// ddprun verify: each step of the data-parallel run against one process, on the terminal and in
// verify.json.
#include <fmt/format.h>

#include <iostream>

#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/base/text.h"
#include "ddprun/measure/environment.h"
#include "runner/command/commands.h"
#include "runner/command/planned_command.h"
#include "runner/launch/execute.h"
#include "runner/report/result_files.h"
#include "runner/report/result_folder.h"
#include "runner/report/verify_report.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr int kVerifySchemaVersion = 1;

class Verify {
 public:
  Verify(const Request& request, Executor& executor)
      : request_(request),
        bounds_{.gradient = request.bound, .parameter = request.parameter_bound},
        executor_(executor),
        terminal_(terminal_of(stdout)) {}

  /// All experiments of one file, and their verify.json. Returns the exit status.
  int file(const PlannedFile& planned) {
    json rows = json::array();
    std::optional<ResultFolder> folder;  // now: an unwritable one shows before the work
    if (executor_.reports()) folder.emplace(planned.output_dir, planned.name, utc_now());
    int status = kExitDone;
    for (std::size_t i = 0; i < planned.runs.size(); ++i) {
      json row = run(planned, i);
      if (interrupted_ != 0) break;
      if (!row.at("passed").get<bool>()) status = kExitFailed;
      rows.push_back(std::move(row));
      if (status != kExitDone && executor_.joined()) break;  // its ranks cannot be restarted
    }
    if (folder && !rows.empty()) write(*folder, planned, rows);
    if (interrupted_ == 0) return status;
    if (folder) std::cerr << interrupted_words(interrupted_, planned.name, &*folder) << "\n";
    return kExitSignal + interrupted_;
  }

 private:
  json run(const PlannedFile& planned, std::size_t index) {
    const Experiment& experiment = planned.runs[index].experiment;
    const std::string name =
        planned.name + (experiment.label.empty() ? "" : " " + experiment.label);
    if (executor_.reports()) {
      std::cout << fmt::format(
                       "{}: {} against one process, every step from equal "
                       "parameters\n",
                       name, counted(experiment.world.size, "rank"))
                << std::flush;
    }
    const Outcome outcome =
        executor_.verify(planned.runs[index], fmt::format("verify/{}/{}", planned.name, index));
    json row = {{"passed", true}};  // of a rank that does not report
    if (outcome.status == Outcome::Status::interrupted) {
      interrupted_ = outcome.signal;
    } else if (outcome.status != Outcome::Status::ok) {
      std::cerr << "error: " << outcome.reason << "\n";
      row = {{"passed", false}, {"reasons", {outcome.reason}}};
    } else if (executor_.reports()) {
      row = judge(outcome.result, bounds_);
      std::cout << verify_text(row, terminal_) << std::flush;
    }
    row["label"] = experiment.label;
    row["config"] = to_json(planned.runs[index].resolved);
    return row;
  }

  void write(ResultFolder& folder, const PlannedFile& planned, const json& rows) const {
    json result =
        result_head(kVerifySchemaVersion, utc_now(), request_.command_line, describe_environment());
    result["name"] = planned.name;
    result["rows"] = rows;
    folder.write("experiment.yaml", to_yaml(planned.document));
    folder.write(kVerifyFile, json_text(result, 1) + "\n");
    folder.show();
    std::cout << "results: " << folder.path("").string() << "\n" << std::flush;
  }

  const Request& request_;
  VerifyBounds bounds_;
  Executor& executor_;
  Terminal terminal_;
  int interrupted_ = 0;
};

}  // namespace

int verify_command(const Request& request) {
  const auto refusals = [&request](const std::vector<PlannedFile>& files, bool /*from_folder*/) {
    for (const PlannedFile& file : files) {
      for (const PlannedRun& run : file.runs) {
        run.experiment.kind->check_verify(run.experiment, *run.registry,
                                          request.parameter_bound.has_value());
      }
    }
    return refusals_of_all(files);
  };
  const auto run = [&request](const std::vector<PlannedFile>& files,
                              std::optional<RankInfo> joined) {
    ProgressDisplay display(stderr, ProgressDisplay::Mode::silent, terminal_of(stderr).width);
    Executor executor(std::move(joined), display);
    Verify verify(request, executor);
    int status = kExitDone;
    for (const PlannedFile& file : files) {
      const int ended = verify.file(file);
      if (ended > kExitSignal) return ended;
      if (ended != kExitDone) status = ended;
      if (status != kExitDone && executor.joined()) return status;
    }
    return status;
  };
  return run_planned(request, {"verify", refusals, run});
}

}  // namespace ddprun
