// From YAML files to experiments that may run.
#include "runner/launch/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "ddprun/base/crash_words.h"
#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/json.h"
#include "ddprun/base/own_library.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/shared_library.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/sweep.h"
#include "ddprun/device/device_library.h"
#include "ddprun/experiments/kinds.h"
#include "ddprun/measure/environment.h"
#include "ddprun/rank/emulated_ranks.h"
#include "ddprun/result/comparison.h"
#include "ddprun/result/conditions.h"
#include "runner/launch/exit_status.h"
#include "runner/launch/shipped_files.h"
#include "runner/report/result_folder.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

/// Its YAML files are those of runs that are over.
bool is_result(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(kResultFiles,
                             [&](const char* file) { return fs::exists(folder / file, ignored); });
}

bool is_yaml(const fs::directory_entry& entry) {
  std::error_code ignored;  // a link may lead nowhere, or to itself: its row says so
  const std::string extension = entry.path().extension();
  return (extension == ".yaml" || extension == ".yml") && !is_hidden(entry.path()) &&
         !entry.is_directory(ignored);
}

std::vector<fs::path> yaml_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  try {
    // It does not follow links to folders, so there is no way round in circles.
    for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::end(entry); ++entry) {
      const fs::path& path = entry->path();
      if (is_hidden(path) || is_result(path) || is_result(path.parent_path())) {
        entry.disable_recursion_pending();
      }
      if (is_yaml(*entry)) files.push_back(path);
    }
  } catch (const fs::filesystem_error& error) {
    throw ConfigError({.what = "the folder cannot be read",
                       .where = (error.path1().empty() ? folder : error.path1()).string(),
                       .got = error.code().message(),
                       .expected = "a folder whose subfolders can be read too",
                       .hint = "name its files one by one, or mend its rights"});
  }
  std::ranges::sort(files);
  if (files.empty()) {
    throw ConfigError({.what = "the folder holds no YAML file",
                       .where = folder.string(),
                       .got = "no *.yaml and no *.yml",
                       .expected = "*.yaml or *.yml in it or its subfolders",
                       .hint = "name a folder that holds experiments, or a file"});
  }
  return files;
}

/// What to name instead of a path where nothing is.
std::string hint_of_absent(const fs::path& path) {
  std::error_code ignored;
  if (const fs::path shipped = shipped_place(path);
      !path.empty() && *path.begin() == kShippedConfigs && fs::exists(shipped, ignored)) {
    return "it comes with ddprun: " + shipped.string();
  }
  return "a command is the first word: `ddprun --help` lists them";
}

/// Writes its options out in full.
void complete_options(const PluginRegistry& registry, PluginChoice& choice) {
  const std::shared_ptr<Plugin> plugin = make_plugin(registry, choice);
  const std::string origin = choice.options.origin;
  choice.options = write_options([&](Options& options) { plugin->declare_options(options); });
  choice.options.origin = origin;
}

/// The libraries of ddprun that only some experiments load, and the plugins.
nlohmann::json libraries_of(const Experiment& experiment, const PluginRegistry& registry) {
  nlohmann::json out = nlohmann::json::object();
  const auto add_own = [&out](const char* name) {
    out[std::string("library of ") + name] = library_content(own_library_file(name));
  };
  if (experiment.world.device == DeviceKind::cuda) add_own("cuda");
  if (experiment.world.comm.backend == BackendKind::mpi) add_own("mpi");
  for (const PluginInfo& info : registry.list()) {
    for (const PluginChoice& choice : experiment.plugins) {
      if (info.kind != choice.kind || info.name != choice.name) continue;
      out[fmt::format("plugin {} {}", to_string(info.kind), info.name)] =
          fmt::format("version {}, library {}", info.version, library_content(info.file));
    }
  }
  return out;
}

/// What the same experiment has everywhere.
std::string fingerprint_of(const PlannedRun& planned, const std::string& contents) {
  Experiment experiment = planned.experiment;
  // The same configuration, whichever file and sweep it comes from.
  experiment.name.clear();
  experiment.label.clear();
  experiment.output_dir = "results";
  experiment.live = {};
  experiment.plugin_path.clear();
  // JSON takes a tenth of the time of YAML, and a sweep may have thousands of points.
  std::string text = json_text(to_json(resolve(experiment)));
  text += contents + "\n" + schema_text(*planned.experiment.kind);
  return fmt::format("{:016x}", hash64(text));
}

/// Whether this machine, too, can run what is valid.
void check_here(PlannedRun& planned, const PlanOptions& options) {
  const Experiment& experiment = planned.experiment;
  const WorldConfig& world = experiment.world;
  try {
    if (world.emulated()) {
      check_emulation_environment(origin_of(experiment.document, "world.emulate_ranks_on_one_gpu"));
    }
    // Ranks of a joined launch are on hosts that only they know: each answers for itself.
    const std::int64_t local_ranks = options.joined_world_size > 0 ? 1 : world.size;
    check_device(world.device, world.emulated() ? 1 : local_ranks,
                 origin_of(experiment.document, "world.device"));
    if (world.comm.backend == BackendKind::mpi) {
      check_mpi(origin_of(experiment.document, "world.backend"));
    }
    std::optional<Account> account;
    check_with_alternatives(experiment, *planned.registry, [&](const Experiment& asked) {
      account = asked.kind->check_machine(asked, *planned.registry, local_ranks);
    });
    planned.account = std::move(account);
  } catch (const ConfigError& error) {
    if (options.joined_world_size > 0) throw;
    planned.not_here = error.what();
  }
}

/// What earlier runs have done is the same on all ranks of a launch, as they agree on the contents.
void check_earlier(PlannedRun& planned, const PlanOptions& options) {
  const Experiment& experiment = planned.experiment;
  try {
    experiment.kind->check_unfinished(experiment);
  } catch (const ConfigError& error) {
    planned.not_here = error.what();
  }
  try {
    experiment.kind->check_unsaved(experiment);
  } catch (const ConfigError& error) {
    if (options.joined_world_size > 0) throw;
    planned.not_here = error.what();
    planned.fails = true;
  }
}

/// A damaged library may come through its trial, and crash when its plugin is asked.
std::string words_of_crash(const Experiment& experiment) {
  const auto asked = mapped(experiment.plugins, [](const PluginChoice& choice) {
    return fmt::format("{} {}", to_string(choice.kind), choice.name);
  });
  const ConfigError error(
      {.what = "a plugin crashed while the experiment was planned",
       .where = experiment.document.origin,
       .got = fmt::format("a crash of one of {}", fmt::join(asked, ", ")),
       .expected = "plugins that answer whether they can run it",
       .hint = "a library is damaged, or its code is at fault: copy or build it again"});
  return fmt::format("error: {}\n", error.what());
}

PlannedRun plan_run(Experiment experiment, const PlanOptions& options, PlanCache& cache) {
  if (!options.output.empty()) experiment.output_dir = options.output;
  std::vector<fs::path> folders(experiment.plugin_path.begin(), experiment.plugin_path.end());
  folders.insert(folders.end(), options.plugin_paths.begin(), options.plugin_paths.end());
  std::vector<fs::path> libraries;
  for (const PluginChoice& choice : experiment.plugins) {
    if (!choice.path.empty()) libraries.emplace_back(choice.path);
  }
  PlannedRun planned;
  planned.registry = cache.registry(plugin_search_path(folders), libraries);
  for (const PluginChoice& choice : experiment.plugins) {
    cache.warn(planned.registry->hiding(choice));
  }
  const CrashWords words(words_of_crash(experiment), kExitUsage);
  check_with_alternatives(experiment, *planned.registry, [&](const Experiment& asked) {
    asked.kind->check_plugins(asked, *planned.registry);
  });
  planned.work = experiment.kind->work(experiment, *planned.registry);
  for (PluginChoice& choice : experiment.plugins) complete_options(*planned.registry, choice);
  planned.experiment = std::move(experiment);
  check_here(planned, options);
  std::string contents;
  try {
    contents = cache.read_contents(planned.experiment);
  } catch (const ConfigError&) {
    if (planned.not_here.empty()) throw;
  }
  if (planned.not_here.empty()) check_earlier(planned, options);
  planned.resolved = resolve(planned.experiment);
  planned.fingerprint = fingerprint_of(planned, contents);
  planned.conditions = process_conditions();
  planned.conditions[kLibraries] = libraries_of(planned.experiment, *planned.registry);
  return planned;
}

/// As plan_run; an error names the point of the sweep.
PlannedRun plan_point(Experiment experiment, const PlanOptions& options, PlanCache& cache) {
  const std::string label = experiment.label;
  try {
    return plan_run(std::move(experiment), options, cache);
  } catch (const ConfigError& error) {
    throw ConfigError(at_point(error.text(), label));
  } catch (const PluginError& error) {
    throw PluginError(at_point(error.text(), label));
  }
}

/// Whether another row is compared with that one.
bool is_base(const PlannedFile& plan, const PlannedRun& run) {
  return std::ranges::any_of(plan.runs, [&run](const PlannedRun& other) {
    return other.baseline == run.fingerprint && other.fingerprint != run.fingerprint;
  });
}

/// What ranks write lies in folders by the number of the run, and nobody knows yet which there are.
void check_open(const PlannedFile& plan) {
  if (!plan.report.open()) return;
  const bool live = std::ranges::any_of(
      plan.runs, [](const PlannedRun& run) { return run.experiment.live.in_result_folder(); });
  if (!live && !ranks_write(plan)) return;
  throw ConfigError({.what = "report.until and report.minutes leave open which runs there are",
                     .where = origin_of(plan.document, "report"),
                     .got = live ? "output: {jsonl, tensorboard or mllog}"
                                 : "profile: {memory, operators or memory_snapshot}",
                     .expected = "runs whose ranks write no files of their own",
                     .hint = "set report.repeats alone, or record one run by itself"});
}

}  // namespace

nlohmann::json process_conditions() {
  static const nlohmann::json the_conditions = [] {
    const std::map<std::string, std::string> groups = {
        {"cpu", kMachine},    {"cores", kMachine},           {"products", kMachine},
        {"simd", kMachine},   {"torch", kSoftware},          {"ddprun", kSoftware},
        {"build", kSoftware}, {"float32 products", kMachine}};
    nlohmann::json out = {{kEnvironment, nlohmann::json::object()}};
    for (const auto& [name, text] : describe_environment()) {
      if (const auto group = groups.find(name); group != groups.end()) {
        out[group->second][name] = text;
      }
    }
    out[kSoftware]["library of ddprun"] = library_content(own_library_file("core"));
    for (const auto& [name, value] : set_variables()) {
      if (!declared_variable(name)->own_of_a_rank) out[kEnvironment][name] = value;
    }
    return out;
  }();
  return the_conditions;
}

std::vector<PlannedTurn> turns_of(const PlannedFile& plan) {
  const bool tested = plan.report.repeats >= static_cast<std::int64_t>(Comparison::kLeastRuns);
  std::vector<PlannedTurn> turns;
  for (const PlannedRun& run : plan.runs) {
    const bool twice = plan.report.aa && tested && is_base(plan, run);
    std::int64_t repetition = 0;
    for (std::int64_t round = 1; round <= plan.report.repeats; ++round) {
      turns.push_back({&run, ++repetition, round});
      if (twice) turns.push_back({&run, ++repetition, round, true});
    }
  }
  return turns;
}

std::string each_once(const std::vector<std::string>& reasons) {
  std::string text;
  std::set<std::string> said;
  for (const std::string& reason : reasons) {
    if (!reason.empty() && said.insert(reason).second) text += (text.empty() ? "" : "\n") + reason;
  }
  return text;
}

std::string obstacles(const PlannedFile& plan) {
  std::vector<std::string> reasons = mapped(plan.runs, &PlannedRun::not_here);
  reasons.insert(reasons.begin(), plan.error);
  return each_once(reasons);
}

bool ranks_write(const PlannedFile& plan) {
  return std::ranges::any_of(plan.runs, [](const PlannedRun& run) {
    return run.experiment.kind->ranks_write(run.experiment);
  });
}

FileList collect_files(const std::vector<std::string>& paths) {
  FileList out;
  for (const std::string& path : paths) {
    if (fs::is_directory(path)) {
      const std::vector<fs::path> inside = yaml_files_in(path);
      out.files.insert(out.files.end(), inside.begin(), inside.end());
      out.from_folder = true;
    } else if (fs::exists(path)) {
      out.files.emplace_back(path);
    } else {
      throw ConfigError({.what = "no such file or folder",
                         .where = path.empty() ? "the command line" : path,
                         .got = "nothing of that name",
                         .expected = "an experiment's YAML file, or a folder of them",
                         .hint = hint_of_absent(path)});
    }
  }
  return out;
}

std::shared_ptr<const PluginRegistry> PlanCache::registry(const std::vector<fs::path>& folders,
                                                          const std::vector<fs::path>& libraries) {
  std::vector<fs::path> key = folders;
  key.emplace_back();  // tells folders and libraries apart
  key.insert(key.end(), libraries.begin(), libraries.end());
  std::shared_ptr<const PluginRegistry>& registry = registries_[key];
  if (!registry) {
    auto made = std::make_shared<PluginRegistry>(folders);
    for (const fs::path& library : libraries) made->add_library(library);
    for (const std::string& refusal : made->refused()) warn("plugin library refused: " + refusal);
    registry = std::move(made);
  }
  return registry;
}

void PlanCache::warn(const std::string& words) {
  if (!words.empty() && warned_.insert(words).second) spdlog::warn("{}", words);
}

std::string PlanCache::read_contents(Experiment& experiment) {
  std::map<std::string, std::uint64_t> telling;
  for (KindContent& content : experiment.kind->contents(experiment)) {
    auto found = hashes_.find(content.identity);
    try {
      if (found == hashes_.end()) found = hashes_.emplace(content.identity, content.hash()).first;
    } catch (const ConfigError& error) {
      ErrorText text = error.text();
      text.where = origin_of(experiment.document, content.key) + ": " + text.where;
      throw ConfigError(std::move(text));
    }
    experiment.contents[content.key] = found->second;
    if (!content.of_its_runs) telling[content.key] = found->second;
  }
  std::string lines;
  for (const auto& [key, hash] : telling) lines += fmt::format("\n{} {:016x}", key, hash);
  return lines;
}

PlannedFile plan_file(const fs::path& file, const PlanOptions& options, PlanCache& cache) {
  PlannedFile plan;
  plan.file = file;
  plan.name = file.stem();
  try {
    ExperimentFile read =
        load_experiments(file, options.overrides, experiment_kinds(), options.joined_world_size);
    plan.name = read.name;
    plan.document = std::move(read.document);
    for (Experiment& experiment : read.experiments) {
      plan.runs.push_back(plan_point(std::move(experiment), options, cache));
    }
    for (std::size_t i = 0; i < read.baseline.of_point.size(); ++i) {
      plan.runs[i].baseline = plan.runs[read.baseline.of_point[i]].fingerprint;
    }
    plan.report = std::move(read.report);
    plan.baseline_words = read.baseline.words;
    plan.output_dir = plan.runs.at(0).experiment.output_dir;
    check_open(plan);
  } catch (const Error& error) {
    plan.error = error.what();
    plan.runs.clear();
  }
  return plan;
}

}  // namespace ddprun
