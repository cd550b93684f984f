// Runs a batch row by row.
#include "runner/command/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/comm/launch_environment.h"
#include "ddprun/measure/environment.h"
#include "runner/command/batch_row.h"
#include "runner/launch/execute.h"
#include "runner/launch/plan.h"
#include "runner/report/earlier_rows.h"
#include "runner/report/memory_table.h"
#include "runner/report/report_table.h"
#include "runner/report/result_files.h"
#include "runner/report/result_folder.h"
#include "runner/report/row_names.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

bool ranks_write(const PlannedFile& file) {
  return std::any_of(file.runs.begin(), file.runs.end(),
                     [](const PlannedRun& run) { return run.experiment.profile.memory_snapshot; });
}

class Batch {
 public:
  Batch(const Request& request, std::vector<PlannedFile> files, Executor& executor,
        ProgressDisplay& display)
      : request_(request), files_(std::move(files)), executor_(executor), display_(display) {
    for (const PlannedFile& file : files_) {
      for (const PlannedRun& planned : file.runs) rows_.push_back(unrun_row(file, planned));
      if (!file.error.empty()) {
        rows_.push_back(refused_row(file));
      }
    }
    names_ = row_names(rows_).names;
    found_in_.resize(rows_.size());
  }

  int run() {
    if (executor_.reports()) {
      for (const PlannedFile& file : files_) {  // an unwritable folder shows now, not after an hour
        if (file.error.empty()) ResultFolder(file.output_dir, file.name, utc_now());
      }
    }
    std::size_t first = 0;  // row of the file
    for (std::size_t f = 0; f < files_.size(); ++f) {
      const std::size_t count = std::max<std::size_t>(1, files_[f].runs.size());
      if (files_[f].error.empty()) {
        run_file(files_[f], first);
      } else {
        display_.message(fmt::format("[{}/{}] {}: failed: {}", first + 1, rows_.size(),
                                     names_[first], files_[f].error));
      }
      if (interrupted_ != 0) return kExitSignal + interrupted_;
      first += count;
    }
    if (executor_.reports()) print_report();
    if (write_failed_) return kExitFailed;
    for (const Row& row : rows_) {
      if (!row.ok()) return kExitFailed;
    }
    return kExitDone;
  }

 private:
  void run_file(const PlannedFile& file, std::size_t first) {
    const std::string time = utc_now();
    std::map<std::string, EarlierRow> earlier;
    if (request_.resume) earlier = earlier_rows(fs::path(file.output_dir) / file.name);
    bool anything_new = false;
    std::optional<ResultFolder> folder;  // there before its time only if ranks write into it
    if (executor_.reports() && ranks_write(file)) {
      folder.emplace(file.output_dir, file.name, time);
    }
    for (std::size_t i = first; i < first + file.runs.size() && interrupted_ == 0; ++i) {
      if (const auto found = earlier.find(rows_[i].fingerprint); found != earlier.end()) {
        take_over(i, found->second);
      } else {
        run_row(file.runs[i - first], i,
                folder ? folder->hidden(row_folder(i - first + 1)) : fs::path());
        anything_new = anything_new || interrupted_ == 0;
      }
    }
    if (interrupted_ != 0 && !anything_new) {
      display_.message(fmt::format("interrupted (signal {}): no result of {} was written",
                                   interrupted_, file.name));
    } else if (executor_.reports()) {
      write_whatever_happens(file, first, time, folder);
    }
  }

  void take_over(std::size_t index, const EarlierRow& earlier) {
    Row& row = rows_[index];
    const std::string label = row.label;
    row = earlier.row;
    row.label = label;
    found_in_[index] = earlier.folder;
    if (!request_.quiet) {
      display_.message(fmt::format("[{}/{}] {}: taken over from {}", index + 1, rows_.size(),
                                   names_[index], row.taken_from));
    }
  }

  void run_row(const PlannedRun& planned, std::size_t index, const fs::path& folder) {
    Row& row = rows_[index];
    row.launcher = executor_.launcher();
    if (executor_.joined() && failed_in_joined_launch_) {
      row.reason =
          "an earlier row failed, and the ranks of a launch that ddprun joined cannot be restarted";
      return;
    }
    if (executor_.reports()) {
      display_.begin_run(static_cast<int>(index) + 1, static_cast<int>(rows_.size()),
                         names_[index] + (row.emulated ? " (emulated)" : ""), row.world_size);
    }
    const std::int64_t launch_ns =
        std::exchange(first_launch_, false) ? request_.launch_ns : now_ns();
    const Outcome outcome = executor_.run(planned, fmt::format("{}/{}", row.name, index), launch_ns,
                                          folder, index + 1 == rows_.size());
    if (outcome.status == Outcome::Status::interrupted) {
      interrupted_ = outcome.signal;
      row.reason = outcome.reason;
      return;
    }
    finish_row(row, outcome);
    failed_in_joined_launch_ =
        executor_.joined() && outcome.status != Outcome::Status::ok && !outcome.next_can_run;
    if (executor_.reports()) display_.end_run(end_text(row));
    if (!row.ok() && (request_.quiet || !executor_.reports())) {  // errors show even so
      display_.message(names_[index] + ": " + outcome_text(row));
    }
  }

  void write_whatever_happens(const PlannedFile& file, std::size_t first, const std::string& time,
                              std::optional<ResultFolder>& folder) {
    try {
      write(file, first, time, folder);
      if (interrupted_ != 0) {
        display_.message(
            fmt::format("interrupted (signal {}): the rows that were done are in {}/, "
                        "and --resume goes on from there",
                        interrupted_, written_.back().string()));
      }
    } catch (const Error& error) {  // the disk is full: the table must not be lost as well
      write_failed_ = true;
      display_.message(std::string("error: ") + error.what());
    }
  }

  void write(const PlannedFile& file, std::size_t first, const std::string& time,
             std::optional<ResultFolder>& folder) {
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(first + file.runs.size());
    const fs::path& newest = found_in_[first];
    if (!newest.empty() && std::all_of(found_in_.begin() + begin, found_in_.begin() + end,
                                       [&](const fs::path& each) { return each == newest; })) {
      written_.push_back(newest);  // that result is complete: a copy would add nothing
      return;
    }
    const std::vector<Row> rows(rows_.begin() + begin, rows_.begin() + end);
    ResultContext context{
        file.name, time, request_.command_line, describe_environment(), to_yaml(file.document), {}};
    for (const PlannedRun& planned : file.runs)
      context.resolved_yaml.push_back(to_yaml(planned.resolved));
    if (!folder) folder.emplace(file.output_dir, file.name, time);
    written_.push_back(write_result(*folder, context, rows));
  }

  void print_report() {
    std::cout << (request_.quiet ? "" : "\n") << terminal_report(rows_, terminal_of(stdout));
    if (request_.verbosity > 0) {
      const TextTable memory = memory_table(rows_);
      if (!memory.lines.empty()) {
        const Terminal terminal = terminal_of(stdout);
        std::cout << "\n" << memory.render(terminal.width, terminal.colour) << "\n";
      }
    }
    for (const fs::path& folder : written_) std::cout << "results: " << folder.string() << "/\n";
    std::cout.flush();
  }

  const Request& request_;
  std::vector<PlannedFile> files_;
  Executor& executor_;
  ProgressDisplay& display_;
  std::vector<Row> rows_;
  std::vector<std::string> names_;
  std::vector<fs::path> found_in_;  ///< of each row: the newest result that had it, --resume
  std::vector<fs::path> written_;
  int interrupted_ = 0;
  bool first_launch_ = true;
  bool failed_in_joined_launch_ = false;
  bool write_failed_ = false;
};

/// The display that a request and stderr ask for; only a process that reports shows progress.
ProgressDisplay::Mode display_mode(const Request& request, const Terminal& terminal, bool reports) {
  if (request.quiet || !reports) return ProgressDisplay::Mode::silent;
  if (terminal.interactive) return ProgressDisplay::Mode::bar;
  return request.verbosity > 0 ? ProgressDisplay::Mode::verbose : ProgressDisplay::Mode::plain;
}

}  // namespace

int run_batch(const Request& request) {
  std::optional<RankInfo> joined = rank_info_from_environment();
  const FileList list = collect_files(request.paths);
  PlanCache cache;
  std::vector<PlannedFile> files;
  std::size_t refused = 0;
  for (const fs::path& file : list.files) {
    files.push_back(plan_file(
        file,
        {request.overrides, request.plugin_paths, request.output, joined ? joined->world_size : 0},
        cache));
    if (!files.back().error.empty()) ++refused;
  }
  const bool reports = !joined || joined->rank == 0;
  if (refused > 0 && (!list.from_folder || refused == files.size())) {
    for (const PlannedFile& file : files) {
      if (!file.error.empty() && reports) std::cerr << "error: " << file.error << "\n";
    }
    return kExitUsage;
  }
  const Terminal terminal = terminal_of(stderr);
  ProgressDisplay display(stderr, display_mode(request, terminal, reports), terminal.width);
  Executor executor(std::move(joined), display);
  return Batch(request, std::move(files), executor, display).run();
}

}  // namespace ddprun
