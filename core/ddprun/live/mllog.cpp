// `output.mllog`: lines as mlperf-logging writes them. They are no MLPerf result.
// A block of MLPerf's ends with an evaluation, or with the run.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <source_location>
#include <string_view>

#include "ddprun/base/choice.h"
#include "ddprun/base/text.h"
#include "ddprun/live/live_file.h"
#include "ddprun/live/live_writer.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr const char* kBegins = "INTERVAL_START";
constexpr const char* kEnds = "INTERVAL_END";
constexpr const char* kNote =
    "# Not an MLPerf result: no benchmark of MLCommons was run, and nobody submits or verifies "
    "this.\n";

/// A run that was started again is another one to mlperf-logging's checker, which allows one
/// init_stop a file: what is there becomes mllog_1.txt, then mllog_2.txt.
void put_aside(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  std::filesystem::path free;
  int number = 0;
  do {
    free = path.parent_path() /
           fmt::format("{}_{}{}", path.stem().string(), ++number, path.extension().string());
  } while (std::filesystem::exists(free));
  std::filesystem::rename(path, free);
}

/// As mlperf-logging calls a format: "fp32" for "float32".
std::string known_format(const std::string& name) {
  constexpr std::string_view kFloat = "float";
  return name.starts_with(kFloat) ? "fp" + name.substr(kFloat.size()) : name;
}

std::string decay_words(const ScheduleConfig& schedule) {
  return name_of(schedule.name) +
         std::string(schedule.warmup_steps > 0 ? " with linear warmup" : "");
}

class Mllog final : public LiveWriter {
 public:
  explicit Mllog(std::filesystem::path path) : path_(std::move(path)) {}
  void begin(const LiveRun& run) override {
    run_ = run;
    steps_done_ = run.first_step;
    put_aside(path_);
    file_.emplace(path_);
    file_->append(kNote);
    point("cache_clear", false);  // nothing was cleared, and the line must be there
    log(kBegins, "init_start", nullptr, {});
    point("submission_benchmark", "ddprun " + run.name);
    point("submission_org", "none: not an MLPerf result");
    point("submission_division", "open");
    point("submission_status", "research");
    point("submission_platform", counted(run.ranks, "rank") + " of ddprun");
    point("seed", run.seed);
    point("config_filename", "resolved/" + run.run + ".yaml");  // of the result
    log_batches();
    log_optimizer();
  }

  void steps_begin(const LiveFormats& formats) override {
    log_formats(formats);
    log(kEnds, "init_stop", nullptr, {});
    log(kBegins, "run_start", nullptr, {});
    run_began_ = true;
    begin_block();
  }

  void step(const LiveSample& sample) override {
    steps_done_ = sample.step + 1;
    if (!sample.validation_loss) return;
    end_block();
    log("POINT_IN_TIME", "eval_accuracy", *sample.validation_loss, samples());
    if (steps_done_ < run_.steps) begin_block();  // with its first step, which is yet to come
  }

  void end(const std::string& status) override {
    if (!run_began_) return;
    end_block();
    json metadata = samples();
    metadata["status"] = status == kLiveOk ? "success" : "aborted";
    log(kEnds, "run_stop", nullptr, metadata);
  }

 private:
  void log(const char* event_type, const char* key, const json& value, const json& metadata,
           std::source_location place = std::source_location::current()) {
    nlohmann::ordered_json line = {
        {"namespace", ""},          {"time_ms", unix_ms()},
        {"event_type", event_type}, {"key", key},
        {"value", value},           {"metadata", metadata.is_null() ? json::object() : metadata}};
    line["metadata"]["file"] = std::filesystem::path(place.file_name()).filename().string();
    line["metadata"]["lineno"] = place.line();
    file_->append(":::MLLOG " + line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  }

  void point(const char* key, const json& value,
             std::source_location place = std::source_location::current()) {
    log("POINT_IN_TIME", key, value, {}, place);
  }

  void log_batches() {
    point("global_batch_size", run_.global_batch);
    point("micro_batch_size", run_.micro_batch);
    point("gradient_accumulation_steps", run_.accumulate);
    point("max_sequence_length", run_.context_length);
    point("max_steps", run_.steps);
    point("train_samples", run_.steps * run_.global_batch);
    point("eval_samples", run_.eval_samples);
    // Ranks share no layer, no block and no sequence with each other.
    for (const char* key : {"tensor_parallelism", "pipeline_parallelism", "context_parallelism",
                            "expert_parallelism"}) {
      point(key, 1);
    }
  }

  void log_optimizer() {
    const OptimizerConfig& optimizer = run_.optimizer;
    const ScheduleConfig& schedule = optimizer.schedule;
    const bool decays = schedule.name == Schedule::cosine;
    point("opt_name", name_of(optimizer.name));
    point("opt_base_learning_rate", optimizer.lr);
    point("opt_end_learning_rate", decays ? schedule.min_lr : optimizer.lr);
    point("opt_learning_rate_warmup_steps", schedule.warmup_steps);
    point("opt_learning_rate_decay_schedule", decay_words(schedule));
    point("opt_learning_rate_decay_steps", decays ? run_.steps - schedule.warmup_steps : 0);
    point("opt_weight_decay", optimizer.weight_decay);
    point("opt_gradient_clip_norm", optimizer.clip_norm);
    if (optimizer.name == OptimizerKind::adamw) {
      point("opt_adamw_beta_1", optimizer.betas.at(0));
      point("opt_adamw_beta_2", optimizer.betas.at(1));
      point("opt_adamw_epsilon", optimizer.eps);
      point("opt_adamw_weight_decay", optimizer.weight_decay);
    } else {
      point("opt_momentum", optimizer.momentum);
    }
  }

  void log_formats(const LiveFormats& formats) {
    point("lowest_numerical_precision_in_linear", known_format(formats.products));
    point("lowest_numerical_precision_in_attn", known_format(formats.attention));
    point("lowest_numerical_precision_in_comm", known_format(formats.communication));
  }

  void begin_block() {
    log(kBegins, "block_start", nullptr, samples());
    in_block_ = true;
  }

  void end_block() {
    if (in_block_) log(kEnds, "block_stop", nullptr, samples());
    in_block_ = false;
  }

  /// {"samples_count": sequences that were trained on}
  json samples() const { return {{"samples_count", steps_done_ * run_.global_batch}}; }

  std::filesystem::path path_;
  std::optional<LiveFile> file_;
  LiveRun run_;
  std::int64_t steps_done_ = 0;
  bool run_began_ = false, in_block_ = false;
};

}  // namespace

std::unique_ptr<LiveWriter> make_mllog(const std::filesystem::path& path) {
  return std::make_unique<Mllog>(path);
}

}  // namespace ddprun
