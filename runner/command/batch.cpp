// The run command: runs all experiments of all files, row by row, and reports them in one table.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <span>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/measure/environment.h"
#include "runner/command/batch_file.h"
#include "runner/command/commands.h"
#include "runner/command/open_rounds.h"
#include "runner/command/planned_command.h"
#include "runner/command/restarted_run.h"
#include "runner/command/resumption.h"
#include "runner/html/html_report.h"
#include "runner/launch/execute.h"
#include "runner/launch/planned_accounts.h"
#include "runner/report/report_output.h"
#include "runner/report/result_files.h"
#include "runner/report/result_folder.h"
#include "runner/report/table_lines.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

/// Whether the result is of that experiment.yaml: with another `report:` it lacks files, or has
/// other tables.
bool is_of(const fs::path& result, const std::string& yaml) {
  try {
    return !result.empty() && read_whole(result / "experiment.yaml") == yaml;
  } catch (const std::runtime_error&) {
    return false;
  }
}

class Batch {
 public:
  Batch(const Request& request, std::vector<PlannedFile> files, Executor& executor,
        ProgressDisplay& display)
      : request_(request), files_(std::move(files)), executor_(executor), display_(display) {
    for (const PlannedFile& file : files_) {
      for (const PlannedTurn& turn : turns_of(file)) {
        rows_.push_back({unrun_row(file, turn, executor.launcher()), &file, turn.run});
        rows_.back().last_in_round = turn.last_in_round;
      }
      if (!file.error.empty()) rows_.push_back({refused_row(file), &file, nullptr});
    }
    const std::vector<std::string> names = run_names(TableLines(plain(rows_)));
    for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].name = names[i];
    // Elsewhere a row is predicted when it has run, which then takes no time of it. A process with
    // threads of a run cannot take a step in a child.
    if (!executor_.joined() || !executor_.reports()) return;
    for (BatchRow& each : rows_) {
      if (each.planned != nullptr) each.row.predicted = account_of(*each.planned);
    }
  }

  int run() {
    if (executor_.reports()) {
      for (const PlannedFile& file : files_) {  // an unwritable folder shows now, not after an hour
        if (file.error.empty()) check_places(file);
      }
    }
    if (request_.resume) resumption_.read(rows_);  // what is damaged shows before anything runs
    for (const PlannedFile& file : files_) {
      if (file.error.empty()) {
        run_file(file);
      } else {
        display_.message(place(rows_of(file).front()) + ": failed: " + file.error);
      }
      if (interrupted_ != 0) return kExitSignal + interrupted_;
    }
    if (std::ranges::all_of(rows_, &BatchRow::cannot_run)) return kExitUsage;  // it was said why
    if (executor_.reports()) print_report();
    const bool failed = std::ranges::any_of(rows_, [this](const auto& row) { return fails(row); });
    return write_failed_ || failed ? kExitFailed : kExitDone;
  }

 private:
  /// They stand side by side, in the order of the files.
  std::span<BatchRow> rows_of(const PlannedFile& file) {
    return std::ranges::equal_range(rows_, &file, {}, &BatchRow::file);
  }
  std::size_t number_of(const BatchRow& row) const {
    return static_cast<std::size_t>(&row - rows_.data()) + 1;
  }

  std::string place(const BatchRow& row) const {
    return fmt::format("[{}/{}] {}", number_of(row), rows_.size(), row.name);
  }

  void run_file(const PlannedFile& plan) {
    FileResult file{plan, rows_of(plan), context_of(plan)};
    bool anything_new = false;
    ++occasion_.round;
    if (std::ranges::any_of(file.rows, &BatchRow::cannot_run)) {
      display_.message(plan.name + ": not all of it can run here: " + obstacles_of(file.rows));
    }
    OpenRounds rounds(plan, executor_);
    for (BatchRow* const each : in_turns(file.rows)) {
      if (interrupted_ == 0 && !rounds.begins(each->row.round, file.rows)) break;
      Row& row = each->row;
      if (interrupted_ != 0) {
        if (row.status == RowStatus::not_run) row.reason = "the batch was interrupted before";
      } else if (each->earlier) {
        take_over(*each);
      } else if (!each->runs_here()) {
        continue;
      } else if (const Row* const broken = failed_before(*each)) {
        row.reason =
            fmt::format("run {} of this row: {}", broken->repetition, outcome_text(*broken));
      } else {
        run_row(file, *each);
        anything_new = anything_new || row.status != RowStatus::not_run;
      }
    }
    if (plan.report.open()) leave_out_unbegun(file, rounds);
    if (request_.resume && run_outdated(file)) anything_new = true;
    if (interrupted_ != 0 && !anything_new) {
      display_.message(
          interrupted_words(interrupted_, plan.name, file.folder ? &*file.folder : nullptr));
    } else if (executor_.reports()) {
      const bool written = write_whatever_happens([&] { write(file); });
      if (!written && file.folder && file.folder->shows(kRowsFolder)) {
        display_.message("rows that are on the disk: " + file.folder->path(kRowsFolder).string() +
                         "/; --resume takes them over");
      }
    }
  }

  /// What no turn began for is no row of the table.
  void leave_out_unbegun(FileResult& file, const OpenRounds& rounds) {
    std::erase_if(rows_, [&](const BatchRow& each) {
      return each.file == &file.plan && each.row.status == RowStatus::not_run &&
             each.row.round > rounds.last();
    });
    file.rows = rows_of(file.plan);
    file.context.points = points_of(file.rows);
    if (rounds.words().empty() || request_.quiet || !executor_.reports()) return;
    display_.message(rounds.words());
  }

  /// An earlier run of the same row that failed, as this one would; null: there is none.
  const Row* failed_before(const BatchRow& row) const {
    for (const BatchRow* each = &row; each != rows_.data() && same_row(each[-1].row, each->row);
         --each) {
      const RowStatus status = each[-1].row.status;
      if (status != RowStatus::ok && status != RowStatus::not_run) return &each[-1].row;
    }
    return nullptr;
  }

  /// Not a row that met its file's memory limit, nor its next runs.
  bool fails(const BatchRow& each) const {
    const Row& row = each.row;
    if (row.ok() || row.status == RowStatus::not_here) return false;
    const Row* const cause = row.status == RowStatus::not_run ? failed_before(each) : &row;
    return cause == nullptr || !met_memory_limit(*cause);
  }

  ResultContext context_of(const PlannedFile& file) {
    ResultContext context{file.name,
                          utc_now(),
                          request_.command_line,
                          describe_environment(),
                          to_yaml(file.document),
                          {},
                          file.report,
                          points_of(rows_of(file))};
    if (file.report.html) context.page = html_of_run;
    return context;
  }

  /// Runs taken over rows again while those of now find other conditions; returns whether one was.
  bool run_outdated(FileResult& file) {
    bool any = false;
    while (interrupted_ == 0 && !failed_in_joined_launch_) {
      const std::vector<bool> outdated = resumption_.outdated(file.rows);
      if (std::ranges::count(outdated, true) == 0) break;
      ++occasion_.round;
      for (std::size_t i = 0; i < outdated.size() && interrupted_ == 0; ++i) {
        if (!outdated[i]) continue;
        BatchRow& each = file.rows[i];
        each.earlier.reset();
        const auto predicted = std::move(each.row.predicted);
        each.row = unrun_row(*each.file, {each.planned, each.row.repetition, each.row.round},
                             executor_.launcher());
        each.row.predicted = predicted;
        run_row(file, each);
        any = any || each.row.status != RowStatus::not_run;
      }
    }
    return any;
  }

  /// What was measured is the earlier row's; what the experiment is, the plan says.
  void take_over(BatchRow& each) {
    Row& row = each.row;
    const Row& earlier = each.earlier->row;
    row.status = earlier.status;
    row.reason = earlier.reason;
    row.ranks = earlier.ranks;
    row.conditions = earlier.conditions;
    row.predicted = earlier.predicted;
    row.occasion = earlier.occasion;
    row.round = earlier.round;
    row.taken_from = earlier.taken_from;
    if (!request_.quiet && executor_.reports())
      display_.message(place(each) + ": taken over from " + row.taken_from);
  }

  void run_row(FileResult& file, BatchRow& each) {
    Row& row = each.row;
    row.occasion = occasion_;
    if (executor_.joined() && failed_in_joined_launch_) {
      row.reason =
          "an earlier row failed, and the ranks of a launch that ddprun joined cannot be restarted";
      return;
    }
    if (executor_.reports()) {
      display_.begin_run(static_cast<int>(number_of(each)), static_cast<int>(rows_.size()),
                         each.name + (row.emulated ? " (emulated)" : ""), row.world_size);
    }
    Outcome outcome = execute(file, each);
    if (outcome.status == Outcome::Status::interrupted) {
      interrupted_ = outcome.signal;
      if (outcome.result.is_null()) {
        row.reason = outcome.reason;
        return;
      }
      outcome.status = Outcome::Status::ok;  // the signal came too late for this one
    }
    if (executor_.reports() || outcome.status != Outcome::Status::ok) {
      finish_row(row, outcome);
    } else {
      row.status = RowStatus::ok;  // rank 0 has what all found, and judges
    }
    if (const std::string failure = unsaved(row); !failure.empty()) {
      write_failed_ = true;
      display_.message(
          fmt::format("error: the last checkpoint of {} was not saved: {}", each.name, failure));
    }
    failed_in_joined_launch_ =
        executor_.joined() && outcome.status != Outcome::Status::ok && !outcome.next_can_run;
    if (executor_.reports() && !row.predicted) row.predicted = account_of(*each.planned);
    if (executor_.reports()) {  // on disk before it is said, so that nothing takes it back
      write_whatever_happens(
          [&] { write_row(file.open_folder(), file.context, file.number_of(each), row); });
      display_.end_run(end_text(row));
    }
    if (!row.ok() && (request_.quiet || !executor_.reports())) {  // errors show even so
      display_.message(each.name + ": " + outcome_text(row));
    }
  }

  Outcome execute(FileResult& file, BatchRow& each) {
    RunFolders folders;
    try {
      if (executor_.reports()) folders = file.folders_of(each);
    } catch (const Error& error) {
      return {Outcome::Status::failed, error.what(), 0, {}};
    }
    const std::int64_t launch_ns =
        std::exchange(first_launch_, false) ? request_.launch_ns : now_ns();
    const auto start = [&](const PlannedRun& planned) {
      return executor_.run(planned, fmt::format("{}/{}", file.plan.name, number_of(each) - 1),
                           launch_ns, folders, &each == &rows_.back());
    };
    return run_with_restarts(executor_, display_, *each.planned, start, request_.max_restarts,
                             each.row.restarts);
  }

  /// A full disk costs files, and nothing else. Returns whether all is written.
  bool write_whatever_happens(const std::function<void()>& write) {
    try {
      write();
      return true;
    } catch (const std::exception& error) {
      write_failed_ = true;
      display_.message(std::string("error: ") + error.what());
      return false;
    }
  }

  /// The complete result of the same file that has all of its rows, or an empty path. What did not
  /// run, as it cannot here or failed before, did not run there either.
  fs::path found_whole(const FileResult& file) const {
    fs::path whole;
    for (const BatchRow& each : file.rows) {
      if (each.row.status == RowStatus::not_here || failed_before(each) != nullptr) continue;
      const fs::path found = each.found_in();
      if (found.empty() || (!whole.empty() && found != whole)) return {};
      whole = found;
    }
    return is_of(whole, file.context.yaml) ? whole : fs::path();
  }

  void write(FileResult& file) {
    if (const fs::path whole = found_whole(file); !whole.empty()) {
      written_.push_back(whole);  // a copy would add nothing
      return;
    }
    const auto not_here = [](const Row& row) { return row.status == RowStatus::not_here; };
    if (std::ranges::all_of(file.rows, not_here, &BatchRow::row)) return;  // nothing ran
    written_.push_back(write_result(file.open_folder(), file.whole_context(), plain(file.rows)));
    if (interrupted_ == 0) return;
    display_.message(interrupted_words(interrupted_, file.plan.name, &*file.folder) +
                     ", and --resume goes on from there");
  }

  void print_report() {
    const std::vector<Row> rows = plain(rows_);
    const TableLines lines(rows);
    const bool for_people = request_.format == ReportFormat::table;
    ResultContext context{"", time_, request_.command_line, describe_environment(), {}, {}, {}};
    if (files_.size() == 1) {
      context.name = files_.front().name;
      context.report = files_.front().report;
      if (files_.front().error.empty()) context.points = points_of(rows_);
    }
    std::cout << (for_people && !request_.quiet ? "\n" : "")
              << report_output(request_.format, context, lines, table_terminal(request_.columns),
                               request_.verbosity > 0);
    for (const fs::path& folder : written_) {
      const std::string line = "results: " + folder.string() + "/";
      if (for_people) {
        std::cout << line << "\n";
      } else if (!request_.quiet) {
        display_.message(line);
      }
    }
    std::cout.flush();
  }

  const Request& request_;
  const std::string time_ = utc_now();
  Occasion occasion_ = {time_, environment_fact("hostname"), getpid()};
  std::vector<PlannedFile> files_;
  Executor& executor_;
  ProgressDisplay& display_;
  BatchResumption resumption_ = {executor_, [this](const BatchRow& row, const std::string& text) {
                                   if (!request_.quiet) display_.message(place(row) + ": " + text);
                                 }};
  std::vector<BatchRow> rows_;
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
  const auto run = [&request](std::vector<PlannedFile> files, std::optional<RankInfo> joined) {
    const Terminal terminal = terminal_of(stderr);
    const auto mode = display_mode(request, terminal, !joined || joined->rank == 0);
    ProgressDisplay display(stderr, mode, terminal.width);
    Executor executor(std::move(joined), display);
    return Batch(request, std::move(files), executor, display).run();
  };
  const auto refusals = [&request](const std::vector<PlannedFile>& files, bool from_folder) {
    return refusals_of_some(files, from_folder, request.resume);
  };
  if (request.max_restarts == 0) {
    return run_planned(request, {request.resume ? "run --resume" : "run", refusals, run});
  }
  return run_planned(request, {"--max-restarts",
                               refusals,
                               run,
                               {"a row", "torchrun --max-restarts or sbatch --requeue does it"}});
}

}  // namespace ddprun
