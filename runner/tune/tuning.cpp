// Plans each candidate as a file of its own: the same file, with overrides.
#include "runner/tune/tuning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/base/ranges.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/plugin_library.h"
#include "ddprun/config/sweep.h"
#include "ddprun/experiments/kinds.h"
#include "ddprun/result/account.h"
#include "runner/launch/planned_accounts.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr const char* kReport = "report";
/// Enough for the first-time costs of each step, and for a graph to be captured.
constexpr int kWarmupSteps = 3;

/// Only the order of the first round depends on it: a core or two, and ranks that meet over TCP.
RankSpeed assumed_speed() {
  constexpr Link kLink = {.bytes_per_s = 2e9, .latency_s = 50e-6};
  return {.operations_per_s = 1e11, .bytes_per_s = 1e10, .links = {kLink, kLink}};
}

const PlannedRun& first_run(const PlannedFile& file) { return file.runs.front(); }

bool sweeps(const PlannedFile& file) {
  const ConfigNode* const sweep = file.document.find(kSweepKey);
  return sweep != nullptr && !sweep->map.empty();
}

TunedPlugins plugins_of(const PluginRegistry& registry) {
  return {.names =
              [&registry](PluginKind kind) {
                std::vector<std::string> names;
                for (const PluginInfo& info : registry.list()) {
                  if (info.kind == kind) names.push_back(info.name);
                }
                return names;
              },
          .has_option =
              [&registry](PluginKind kind, const std::string& name, const std::string& option) {
                const auto known = registry.list();
                const bool there = std::ranges::any_of(known, [&](const PluginInfo& info) {
                  return info.kind == kind && info.name == name;
                });
                if (!there) return false;  // planning it says so
                const auto plugin = registry.create(kind, name);
                const auto options =
                    list_options([&](Options& to) { plugin->declare_options(to); });
                return contains(options, option, &OptionInfo::key);
              }};
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  for (const auto& [section, options] : describe_sections(experiment_kinds())) {
    const bool top = section.find(' ') != std::string::npos;  // "top level"
    for (const OptionInfo& option : options) {
      keys.push_back(top ? option.key : section + "." + option.key);
    }
  }
  return keys;
}

/// Whether the machine has the memory that its ranks would take, as far as it is known.
bool fits(const PlannedRun& run) {
  const auto account = account_of(run);
  const PhaseAccount* const peak = account ? account->peak() : nullptr;
  if (peak == nullptr) return true;
  const double all = static_cast<double>(peak->at_peak.sum() * run.experiment.world.size);
  return all <= static_cast<double>(available_memory());
}

std::string default_keys(const PlannedRun& run) {
  std::string keys = run.experiment.world.size > 1 ? "strategy,strategy.bucket_mb" : "attention";
  if (!run.not_here.empty() && !fits(run)) keys += ",model.recompute";
  return keys;
}

void check_kind(const PlannedFile& file) {
  const PlannedRun& run = first_run(file);
  if (run.experiment.kind->trains_exactly(run.experiment, *run.registry)) return;
  throw ConfigError({.what = "only an experiment that trains can be tuned",
                     .where = file.file.string(),
                     .got = "experiment " + run.experiment.kind->name(),
                     .expected = "experiment training",
                     .hint = "a sweep compares what other experiments measure"});
}

/// All experiments of the file must be candidates.
void check_sweep(const PlannedFile& file, const std::vector<TunedKey>& keys, bool said) {
  if (!sweeps(file)) return;
  std::vector<std::string> swept, rest;
  for (const auto& [key, values] : file.document.find(kSweepKey)->map) {
    swept.push_back(key);
    if (!said || !contains(keys, key, &TunedKey::key)) rest.push_back(key);
  }
  if (rest.empty()) return;
  throw ConfigError(
      {.what = "the file has several experiments",
       .where = origin_of(file.document, kSweepKey),
       .got = fmt::format("a sweep over {}", fmt::join(rest, ", ")),
       .expected = "one experiment, or --over with each key that is swept",
       .hint = fmt::format("--over {}, or --set 'sweep={{}}' for the file without its sweep",
                           fmt::join(swept, ","))});
}

/// The runs of a candidate are short, and leave no files.
std::vector<std::string> overrides_of_runs(std::int64_t steps) {
  std::vector<std::string> out = {"train.eval={}",
                                  "train.sample={}",
                                  "train.checkpoint={}",
                                  "train.resume_from=\"\"",
                                  "optimizer.schedule={}",
                                  "profile={}",
                                  "report={}"};
  out.push_back(fmt::format("train.steps={}", steps));
  out.push_back(fmt::format("train.warmup_steps={}", kWarmupSteps));
  return out;
}

/// A bucket larger than all gradients is as any other such bucket.
std::string step_of(const TunedCandidate& candidate) {
  if (!candidate.account || !candidate.account->unknown.empty()) return candidate.run.fingerprint;
  json config = to_json(candidate.run.resolved);
  if (config.at("strategy").is_object()) config["strategy"].erase("bucket_mb");
  return json_text(config) + json_text(to_json(*candidate.account));
}

double expected_s(const TunedCandidate& candidate) {
  if (!candidate.account || !candidate.account->unknown.empty()) {
    return std::numeric_limits<double>::infinity();
  }
  return step_time(*candidate.account, assumed_speed()).step_s();
}

/// Adds candidates to a tuning, each once.
class Gathering {
 public:
  Gathering(Tuning& tuning, const PlanOptions& options, PlanCache& cache)
      : tuning_(tuning), options_(options), cache_(cache) {}

  /// Whether it runs here. `own`: whatever it trains.
  bool add(const Candidate& choice, std::int64_t steps, bool own) {
    const PlannedFile plan = plan_candidate(tuning_, choice, steps, options_, cache_);
    if (const std::string obstacle = obstacles(plan); !obstacle.empty()) {
      return leave_out(choice, first_line(obstacle));
    }
    TunedCandidate candidate{.choice = choice, .run = plan.runs.front()};
    const Experiment& experiment = candidate.run.experiment;
    if (!own && !*experiment.kind->trains_exactly(experiment, *candidate.run.registry)) {
      return leave_out(choice, "it does not make each gradient the mean over the ranks");
    }
    candidate.account = account_of(candidate.run);
    if (!known_.insert(candidate.run.fingerprint).second) return false;  // it is there
    if (!steps_.insert(step_of(candidate)).second) {
      return leave_out(choice, "the step is that of another candidate");
    }
    tuning_.candidates.push_back(std::move(candidate));
    return true;
  }

 private:
  bool leave_out(const Candidate& choice, const std::string& reason) {
    tuning_.left_out.push_back({choice.name(), reason});
    return false;
  }

  Tuning& tuning_;
  const PlanOptions& options_;
  PlanCache& cache_;
  std::set<std::string> known_, steps_;
};

/// A path in the file is relative to its folder, and the tuned file lies elsewhere.
void make_paths_absolute(ConfigNode& document, const ConfigNode& resolved) {
  const auto absolute = [](const ConfigNode& node) { return node.scalar.starts_with("/"); };
  for (auto& [key, value] : document.map) {
    const ConfigNode* const known = resolved.find(key);
    if (known == nullptr) continue;
    if (value.kind == ConfigNode::Kind::map) {
      make_paths_absolute(value, *known);
    } else if (absolute(*known) || std::ranges::any_of(known->list, absolute)) {
      value = *known;
    }
  }
}

void erase(ConfigNode& document, const char* key) {
  std::erase_if(document.map, [key](const auto& pair) { return pair.first == key; });
}

}  // namespace

std::vector<TunedKey> tuned_keys(const PlannedFile& file, const std::string& over) {
  check_kind(file);
  std::vector<TunedKey> keys = parse_over(over.empty() ? default_keys(first_run(file)) : over);
  check_sweep(file, keys, !over.empty());
  check_tuned(keys, known_keys());
  return with_values(std::move(keys), file.document, plugins_of(*first_run(file).registry));
}

Tuning plan_tuning(PlannedFile file, std::vector<TunedKey> keys, const PlanOptions& options,
                   PlanCache& cache) {
  Tuning tuning{.file = std::move(file), .keys = std::move(keys)};
  const PlannedRun& first = first_run(tuning.file);
  tuning.steps = to_json(first.resolved).at("train").at("steps").get<std::int64_t>();
  Gathering gathering(tuning, options, cache);
  const bool swept = sweeps(tuning.file);
  tuning.reference_words = swept ? "the first setting of the sweep" : "the file's own setting";
  if (!swept && gathering.add(candidate_of(tuning.file.document, first.resolved, tuning.keys),
                              tuning.steps, /*own=*/true)) {
    tuning.reference = 0;
  }
  const ConfigNode& document = swept ? first.experiment.document : tuning.file.document;
  for (const Candidate& each : candidates_of(document, tuning.keys, plugins_of(*first.registry))) {
    const bool added = gathering.add(each, tuning.steps, /*own=*/false);
    if (added && swept && !tuning.reference) tuning.reference = 0;
  }
  if (tuning.candidates.size() < (tuning.reference ? 2U : 1U)) {
    const auto reasons = mapped(
        tuning.left_out, [](const LeftOut& each) { return each.label + ": " + each.reason; });
    throw ConfigError({.what = "there is nothing to tune",
                       .where = tuning.file.file.string(),
                       .got = reasons.empty() ? "one setting"
                                              : fmt::format("one setting; left out: {}",
                                                            fmt::join(reasons, "; ")),
                       .expected = "two settings that run here and train alike",
                       .hint = "--over names keys, and values between bars: "
                               "--over 'strategy=flat|bucketed'"});
  }
  std::ranges::stable_sort(tuning.candidates.begin() + (tuning.reference ? 1 : 0),
                           tuning.candidates.end(), {}, expected_s);
  return tuning;
}

PlannedFile plan_candidate(const Tuning& tuning, const Candidate& candidate, std::int64_t steps,
                           PlanOptions options, PlanCache& cache) {
  if (sweeps(tuning.file)) options.overrides.emplace_back("sweep={}");
  for (const std::string& each : candidate.overrides()) options.overrides.push_back(each);
  for (const std::string& each : overrides_of_runs(steps)) options.overrides.push_back(each);
  PlannedFile plan = plan_file(tuning.file.file, options, cache);
  for (PlannedRun& run : plan.runs) {
    run.experiment.live = {};
    run.experiment.label = candidate.label();
  }
  return plan;
}

ConfigNode tuned_document(const Tuning& tuning, const TunedCandidate& candidate) {
  ConfigNode document = tuning.file.document;
  erase(document, kSweepKey);
  if (sweeps(tuning.file)) erase(document, kReport);  // it names keys that are no longer swept
  for (const auto& [key, value] : candidate.choice.values) set_path(document, key, value);
  make_paths_absolute(document, candidate.run.resolved);
  if (ConfigNode* const train = document.find("train")) {  // candidates have no evaluation
    make_paths_absolute(*train, *first_run(tuning.file).resolved.find("train"));
  }
  if (document.find("name") == nullptr) set_path(document, "name", text_node(tuning.file.name));
  return document;
}

}  // namespace ddprun
