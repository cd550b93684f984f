// ddprun tune: the fastest setting of an experiment that trains, by real runs.
#include <fmt/format.h>

#include <iostream>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/text.h"
#include "ddprun/measure/environment.h"
#include "ddprun/result/run_statistics.h"
#include "runner/command/batch_file.h"
#include "runner/command/commands.h"
#include "runner/command/planned_command.h"
#include "runner/launch/execute.h"
#include "runner/report/result_files.h"
#include "runner/tune/tuning_report.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr int kTuneSchemaVersion = 1;
/// Measured steps of a run in the first round, and at most: more differ as much from run to run.
constexpr std::int64_t kFirstSteps = 5, kFullSteps = 80;

HalvingConfig halving_config(const Tuning& tuning, double minutes) {
  return {.first_steps = std::min(kFirstSteps, tuning.steps),
          .full_steps = std::min(kFullSteps, tuning.steps),
          .limit_s = minutes * 60};
}

class Tune {
 public:
  Tune(const Request& request, const PlanOptions& options, PlanCache& cache, const Tuning& tuning,
       Executor& executor, ProgressDisplay& display)
      : request_(request),
        options_(options),
        cache_(cache),
        tuning_(tuning),
        executor_(executor),
        display_(display),
        folder_(tuning.file.output_dir, tuning.file.name, time_),
        halving_(tuning.candidates.size(), tuning.reference,
                 halving_config(tuning, request.minutes)),
        result_{.tuning = tuning, .halving = halving_} {
    result_.last_rows.resize(tuning.candidates.size());
  }

  int run() {
    tell(fmt::format("{}: {}, at most {}\n{}", tuning_.file.name,
                     counted(std::ssize(tuning_.candidates), "candidate"), minutes(),
                     left_out_words(tuning_)));
    result_.end = halving_.run({.measure = [this](const HalvingRun& due) { return measure(due); },
                                .used_s = [this] { return seconds_since(begin_ns_); },
                                .on_round =
                                    [this](const HalvingRound& round) {
                                      result_.rounds.push_back(round);
                                      tell(round_words(round, tuning_, halving_) + "\n");
                                    }});
    result_.used_s = seconds_since(begin_ns_);
    const bool any = halving_.winner().has_value();
    if (signal_ != 0) {
      if (any) write();
      display_.message(interrupted_words(signal_, tuning_.file.name, &folder_));
      return kExitSignal + signal_;
    }
    tell(end_words() + "\n");
    write();
    return any ? kExitDone : kExitFailed;
  }

 private:
  std::string minutes() const {
    return fmt::format("{:g} minute{}", request_.minutes, request_.minutes == 1 ? "" : "s");
  }

  /// What is for people only.
  void tell(const std::string& text) const {
    if (request_.format == ReportFormat::table) std::cout << text << std::flush;
  }

  std::string end_words() const {
    switch (result_.end) {
      case HalvingEnd::one_left:
        return "ended: one candidate is left";
      case HalvingEnd::within_noise:
        return "ended: more steps do not tell the rest apart";
      case HalvingEnd::time:
        return "ended: the next run would end after " + minutes();
      case HalvingEnd::interrupted:  // has other words
      case HalvingEnd::none_left:
        break;
    }
    return "ended: no candidate is left";
  }

  Measured measure(const HalvingRun& due) {
    const TunedCandidate& candidate = tuning_.candidates[due.candidate];
    const PlannedFile plan = plan_candidate(tuning_, candidate.choice, due.steps, options_, cache_);
    if (const std::string obstacle = obstacles(plan); !obstacle.empty()) {
      return {.status = Measured::Status::failed, .reason = obstacle};
    }
    const PlannedRun& planned = plan.runs.front();
    Row row = unrun_row(tuning_.file, {&planned, due.turn, due.turn}, executor_.launcher());
    display_.begin_run(
        static_cast<int>(due.candidate) + 1, static_cast<int>(tuning_.candidates.size()),
        fmt::format("round {}, {}", due.round, candidate.choice.name()), row.world_size);
    const Outcome outcome =
        executor_.run(planned, fmt::format("tune/{}/{}", due.turn, due.candidate), now_ns(),
                      RunFolders(), /*last=*/false);
    if (outcome.status == Outcome::Status::interrupted) {
      signal_ = outcome.signal;
      return {.status = Measured::Status::interrupted, .reason = outcome.reason};
    }
    finish_row(row, outcome);
    display_.end_run(end_text(row));
    return judged(std::move(row), due.candidate);
  }

  /// What is not proved has a time only if others are held against it.
  Measured judged(Row row, std::size_t candidate) {
    const CheckStatus proof = row.measured() ? summarize_proof(row).status : CheckStatus::failed;
    if (!row.ok() || !row.measured()) {
      return {.status = Measured::Status::failed, .reason = row.reason};
    }
    const RunStatistics statistics(row);
    const Figure figure = statistics.figure(row.kind->quantities().front());
    const double ms = figure.value.value_or(0);
    if (!statistics.timed() || ms <= 0) {
      return {.status = Measured::Status::failed, .reason = "its times mean nothing"};
    }
    result_.last_rows[candidate] = std::move(row);
    if (proof == CheckStatus::passed) return {.ms = ms};
    return {.status = Measured::Status::unproved,
            .ms = ms,
            .reason = fmt::format("not proved: {}", name_of(proof))};
  }

  std::string machine() const {
    return fmt::format("{}, {} cores ({}), {}", environment_fact("cpu"), environment_fact("cores"),
                       environment_fact("hostname"), time_);
  }

  void write() {
    json all = to_json(result_);
    all.update(
        result_head(kTuneSchemaVersion, time_, request_.command_line, describe_environment()));
    all["name"] = tuning_.file.name;
    all["minutes"] = request_.minutes;
    std::cout << tuning_output(result_, request_.format, table_terminal(request_.columns), all)
              << std::flush;  // whatever becomes of the files
    folder_.write("experiment.yaml", to_yaml(tuning_.file.document));
    folder_.write(kTuneFile, json_text(all, 1) + "\n");
    const std::string yaml = tuned_yaml(result_, machine());
    if (!yaml.empty()) folder_.write("tuned.yaml", yaml);
    folder_.show();
    const std::string place = folder_.path(yaml.empty() ? "" : "tuned.yaml").string();
    if (request_.format == ReportFormat::table) {
      std::cout << "results: " << place << "\n" << std::flush;
    } else if (!request_.quiet) {
      display_.message("results: " + place);
    }
  }

  const Request& request_;
  const PlanOptions& options_;
  PlanCache& cache_;
  const Tuning& tuning_;
  Executor& executor_;
  ProgressDisplay& display_;
  const std::string time_ = utc_now();
  const std::int64_t begin_ns_ = now_ns();
  ResultFolder folder_;
  Halving halving_;
  TuningResult result_;
  int signal_ = 0;
};

ProgressDisplay::Mode mode_of(const Request& request, const Terminal& terminal) {
  if (request.quiet) return ProgressDisplay::Mode::silent;
  if (terminal.interactive) return ProgressDisplay::Mode::bar;
  return request.verbosity > 0 ? ProgressDisplay::Mode::verbose : ProgressDisplay::Mode::silent;
}

}  // namespace

int tune_command(const Request& request) {
  const auto refusals = [&request](const std::vector<PlannedFile>& files, bool from_folder) {
    if (from_folder) {
      throw ConfigError({.what = "one file is tuned at a time",
                         .where = "the command line",
                         .got = request.paths.front() + ", a folder",
                         .expected = "an experiment's YAML file",
                         .hint = "ddprun tune FILE.yaml"});
    }
    std::vector<std::string> reasons;
    if (!files.front().error.empty()) {
      reasons.push_back(files.front().error);
    } else {
      tuned_keys(files.front(), request.over);
    }
    return reasons;
  };
  const auto run = [&request](std::vector<PlannedFile> files, std::optional<RankInfo> /*joined*/) {
    PlanCache cache;
    const PlanOptions options = {request.overrides, request.plugin_paths, request.output, 0};
    std::vector<TunedKey> keys = tuned_keys(files.front(), request.over);
    const Tuning tuning = plan_tuning(std::move(files.front()), std::move(keys), options, cache);
    const Terminal terminal = terminal_of(stderr);
    ProgressDisplay display(stderr, mode_of(request, terminal), terminal.width);
    Executor executor({}, display);
    return Tune(request, options, cache, tuning, executor, display).run();
  };
  return run_planned(request, {"tune", refusals, run, {"each candidate", "ddprun tune FILE.yaml"}});
}

}  // namespace ddprun
