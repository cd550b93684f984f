// Runs a batch row by row.
#include "runner/command/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/measure/environment.h"
#include "runner/command/batch_row.h"
#include "runner/command/planned_command.h"
#include "runner/launch/execute.h"
#include "runner/report/earlier_rows.h"
#include "runner/report/memory_table.h"
#include "runner/report/report_table.h"
#include "runner/report/result_files.h"
#include "runner/report/result_folder.h"
#include "runner/report/table_lines.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

bool ranks_write(const PlannedFile& file) {
  return std::any_of(file.runs.begin(), file.runs.end(),
                     [](const PlannedRun& run) { return run.experiment.profile.memory_snapshot; });
}

/// The result of a file while its rows run.
struct FileResult {
  ResultContext context;
  std::optional<ResultFolder> folder = {};  ///< since the first row that ended, or ranks that write
};

ResultFolder& folder_of(FileResult& result, const PlannedFile& file) {
  if (!result.folder) result.folder.emplace(file.output_dir, file.name, result.context.time);
  return *result.folder;
}

class Batch {
 public:
  Batch(const Request& request, std::vector<PlannedFile> files, Executor& executor,
        ProgressDisplay& display)
      : request_(request), files_(std::move(files)), executor_(executor), display_(display) {
    for (const PlannedFile& file : files_) {
      for (const PlannedRun& planned : file.runs) {
        for (std::int64_t run = 1; run <= file.repeats; ++run) {
          rows_.push_back(unrun_row(file, planned));
          rows_.back().repetition = run;
        }
      }
      if (!file.error.empty()) {
        rows_.push_back(refused_row(file));
      }
    }
    names_ = run_names(rows_);
    earlier_.resize(rows_.size());
    found_in_.resize(rows_.size());
  }

  int run() {
    if (executor_.reports()) {
      for (const PlannedFile& file : files_) {  // an unwritable folder shows now, not after an hour
        if (file.error.empty()) ResultFolder(file.output_dir, file.name, utc_now());
      }
    }
    if (request_.resume) read_earlier();
    std::size_t first = 0;  // row of the file
    for (std::size_t f = 0; f < files_.size(); ++f) {
      const std::size_t count = std::max<std::size_t>(1, rows_of(files_[f]));
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
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (is_failure(i)) return kExitFailed;
    }
    return kExitDone;
  }

 private:
  void run_file(const PlannedFile& file, std::size_t first) {
    FileResult result{context_of(file)};
    bool anything_new = false;
    if (const std::string lacking = obstacles(file); !lacking.empty()) {
      display_.message(file.name + ": this machine cannot run all of it: " + lacking);
    }
    for (const std::size_t i : in_turns(file, first)) {
      if (interrupted_ != 0) {
        if (rows_[i].status == RowStatus::not_run)
          rows_[i].reason = "the batch was interrupted before";
      } else if (earlier_[i]) {
        take_over(i);
      } else if (rows_[i].status == RowStatus::not_here) {
        continue;
      } else if (const std::size_t broken = failed_before(i); broken != i) {
        rows_[i].reason = fmt::format("run {} of this row: {}", rows_[broken].repetition,
                                      outcome_text(rows_[broken]));
      } else {
        run_row(file, i, i - first, result);
        anything_new = anything_new || interrupted_ == 0;
      }
    }
    if (interrupted_ != 0 && !anything_new) {
      display_.message(fmt::format("interrupted (signal {}): no result of {} was written",
                                   interrupted_, file.name));
    } else if (executor_.reports()) {
      const bool written = write_whatever_happens([&] { write(file, first, result); });
      if (!written && result.folder && result.folder->shown()) {
        display_.message("rows that are on the disk: " + result.folder->path(kRowsFolder).string() +
                         "/; --resume takes them over");
      }
    }
  }

  static std::size_t rows_of(const PlannedFile& file) {
    return file.runs.size() * static_cast<std::size_t>(file.repeats);
  }

  /// The file's rows in the order in which they run: the first runs of all, then the second ones,
  /// so that what changes with time meets all alike.
  static std::vector<std::size_t> in_turns(const PlannedFile& file, std::size_t first) {
    const auto repeats = static_cast<std::size_t>(file.repeats);
    std::vector<std::size_t> order;
    for (std::size_t run = 0; run < repeats; ++run) {
      for (std::size_t at = 0; at < file.runs.size(); ++at) {
        order.push_back(first + at * repeats + run);
      }
    }
    return order;
  }

  /// An earlier run of the same row that failed, as this one would; `index` itself: there is none.
  std::size_t failed_before(std::size_t index) const {
    for (std::size_t i = index; i > 0 && same_row(rows_[i - 1], rows_[i]); --i) {
      const RowStatus status = rows_[i - 1].status;
      if (status != RowStatus::ok && status != RowStatus::not_run) return i - 1;
    }
    return index;
  }

  /// Whether the row makes the batch fail. One that met the memory limit of its file does not, nor
  /// do the further runs that it then did not get.
  bool is_failure(std::size_t index) const {
    const Row& row = rows_[index];
    if (row.ok() || row.status == RowStatus::not_here) return false;
    const bool not_run = row.status == RowStatus::not_run;
    return !met_memory_limit(rows_[not_run ? failed_before(index) : index]);
  }

  ResultContext context_of(const PlannedFile& file) const {
    ResultContext context{
        file.name, utc_now(), request_.command_line, describe_environment(), to_yaml(file.document),
        {}};
    for (const PlannedRun& run : file.runs) {
      context.resolved_yaml.insert(context.resolved_yaml.end(),
                                   static_cast<std::size_t>(file.repeats), to_yaml(run.resolved));
    }
    return context;
  }

  /// Before anything runs, so that what is damaged shows now.
  void read_earlier() {
    std::size_t index = 0;
    for (const PlannedFile& file : files_) {
      if (!file.error.empty()) {
        ++index;
        continue;
      }
      auto found = earlier_rows(fs::path(file.output_dir) / file.name);
      for (std::size_t at = 0; at < rows_of(file); ++at, ++index) {
        const auto row = found.find({rows_[index].fingerprint, rows_[index].repetition});
        if (row != found.end() && says_the_same(rows_[index], row->second)) {
          earlier_[index] = row->second;
        }
      }
    }
  }

  /// What was measured is the earlier row's; what the experiment is, the plan says.
  void take_over(std::size_t index) {
    Row& row = rows_[index];
    const EarlierRow& earlier = *earlier_[index];
    row.status = earlier.row.status;
    row.ranks = earlier.row.ranks;
    row.launcher = earlier.row.launcher;
    row.taken_from = earlier.row.taken_from;
    found_in_[index] = earlier.folder;
    if (!request_.quiet) {
      display_.message(fmt::format("[{}/{}] {}: taken over from {}", index + 1, rows_.size(),
                                   names_[index], row.taken_from));
    }
  }

  /// Row `index` of the table, which is row `at` of its file.
  void run_row(const PlannedFile& file, std::size_t index, std::size_t at, FileResult& result) {
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
    const Outcome outcome = execute(file, index, at, result);
    if (outcome.status == Outcome::Status::interrupted) {
      interrupted_ = outcome.signal;
      row.reason = outcome.reason;
      return;
    }
    finish_row(row, outcome);
    failed_in_joined_launch_ =
        executor_.joined() && outcome.status != Outcome::Status::ok && !outcome.next_can_run;
    if (executor_.reports()) {  // on disk before it is said, so that nothing takes it back
      write_whatever_happens(
          [&] { write_row(folder_of(result, file), result.context, at + 1, row); });
      display_.end_run(end_text(row));
    }
    if (!row.ok() && (request_.quiet || !executor_.reports())) {  // errors show even so
      display_.message(names_[index] + ": " + outcome_text(row));
    }
  }

  Outcome execute(const PlannedFile& file, std::size_t index, std::size_t at, FileResult& result) {
    fs::path folder;
    try {
      if (executor_.reports() && ranks_write(file)) {
        folder = folder_of(result, file).path(row_folder(at + 1));
      }
    } catch (const Error& error) {
      return {Outcome::Status::failed, error.what(), 0, {}};
    }
    const std::int64_t launch_ns =
        std::exchange(first_launch_, false) ? request_.launch_ns : now_ns();
    const PlannedRun& planned = file.runs[at / static_cast<std::size_t>(file.repeats)];
    return executor_.run(planned, fmt::format("{}/{}", file.name, index), launch_ns, folder,
                         index + 1 == rows_.size());
  }

  /// The disk may be full, or gone: that costs files, and neither the rows that follow nor the
  /// table. Returns whether all is written.
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

  void write(const PlannedFile& file, std::size_t first, FileResult& result) {
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(first + rows_of(file));
    const fs::path& newest = found_in_[first];
    if (!newest.empty() && std::all_of(found_in_.begin() + begin, found_in_.begin() + end,
                                       [&](const fs::path& each) { return each == newest; })) {
      written_.push_back(newest);  // that result is complete: a copy would add nothing
      return;
    }
    const std::vector<Row> rows(rows_.begin() + begin, rows_.begin() + end);
    if (std::all_of(rows.begin(), rows.end(),
                    [](const Row& row) { return row.status == RowStatus::not_here; })) {
      return;  // nothing ran
    }
    written_.push_back(write_result(folder_of(result, file), result.context, rows));
    if (interrupted_ == 0) return;
    display_.message(
        fmt::format("interrupted (signal {}): the rows that were done are in {}/, and --resume "
                    "goes on from there",
                    interrupted_, written_.back().string()));
  }

  void print_report() {
    std::cout << (request_.quiet ? "" : "\n")
              << terminal_report(TableLines(rows_), terminal_of(stdout));
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
  std::vector<std::optional<EarlierRow>> earlier_;  ///< of each row, with --resume
  std::vector<fs::path> found_in_;  ///< of each row: the complete result that it was taken from
  std::vector<fs::path> written_;
  int interrupted_ = 0;
  bool first_launch_ = true;
  bool failed_in_joined_launch_ = false;
  bool write_failed_ = false;
};

/// Why nothing runs: files that are wrong, unless they were found in a folder; or no file of which
/// anything can run here.
std::vector<std::string> refusals_of(const std::vector<PlannedFile>& files, bool from_folder) {
  std::vector<std::string> wrong, impossible;
  for (const PlannedFile& file : files) {
    if (!file.error.empty()) wrong.push_back(file.error);
    if (std::none_of(file.runs.begin(), file.runs.end(),
                     [](const PlannedRun& run) { return run.not_here.empty(); })) {
      impossible.push_back(obstacles(file));
    }
  }
  if (impossible.size() == files.size()) return impossible;
  return from_folder ? std::vector<std::string>() : wrong;
}

/// The display that a request and stderr ask for; only a process that reports shows progress.
ProgressDisplay::Mode display_mode(const Request& request, const Terminal& terminal, bool reports) {
  if (request.quiet || !reports) return ProgressDisplay::Mode::silent;
  if (terminal.interactive) return ProgressDisplay::Mode::bar;
  return request.verbosity > 0 ? ProgressDisplay::Mode::verbose : ProgressDisplay::Mode::plain;
}

}  // namespace

int run_batch(const Request& request) {
  const auto run = [&request](std::vector<PlannedFile> files, std::optional<RankInfo> joined) {
    const bool reports = !joined || joined->rank == 0;
    const Terminal terminal = terminal_of(stderr);
    ProgressDisplay display(stderr, display_mode(request, terminal, reports), terminal.width);
    Executor executor(std::move(joined), display);
    return Batch(request, std::move(files), executor, display).run();
  };
  return run_planned(request, {"run", refusals_of, run});
}

}  // namespace ddprun
