// quickstart, validate, list, describe, schema and --version.
#include "runner/command/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "ddprun/base/own_library.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/schema/experiment_schema.h"
#include "ddprun/config/schema/options_schema.h"
#include "ddprun/experiments/kinds.h"
#include "ddprun/measure/environment.h"
#include "runner/command/out_file.h"
#include "runner/launch/plan.h"
#include "runner/launch/planned_accounts.h"
#include "runner/launch/shipped_files.h"
#include "runner/report/account_table.h"
#include "runner/report/terminal.h"
#include "runner/report/text_table.h"

namespace ddprun {

PluginRegistry open_registry(const Request& request) {
  return PluginRegistry(
      plugin_search_path({request.plugin_paths.begin(), request.plugin_paths.end()}));
}

namespace {

/// Where a table is too wide for the terminal, each text stands below its key, uncut.
void print_options(const std::vector<OptionInfo>& options, int width) {
  if (options.empty()) {
    std::cout << "  no options\n";
    return;
  }
  TextTable table;
  for (const char* title : {"key", "type", "default", "allowed", "meaning"}) {
    table.columns.push_back({title, false});
  }
  for (const OptionInfo& o : options) {
    table.add({o.key, o.type, o.default_value, o.allowed, o.help});
  }
  if (width == 0 || table.width() <= width) {
    std::cout << table.render(0, false);
    return;
  }
  for (const OptionInfo& o : options) {
    std::cout << o.key << " (" << o.type << ", default " << o.default_value
              << (o.allowed.empty() ? "" : "; ") << o.allowed << ")\n    " << o.help << "\n";
  }
}

[[noreturn]] void throw_unknown(const PluginRegistry& registry, const std::string& name) {
  auto known = mapped(describe_sections(experiment_kinds()), [](auto& each) { return each.first; });
  for (const PluginInfo& info : registry.list()) known.push_back(info.name);
  throw ConfigError({.what = "nothing of that name to describe",
                     .where = "the command line",
                     .got = name,
                     .expected = list_text(known),
                     .hint = did_you_mean(name, known, "`ddprun list` shows the plugins")});
}

namespace fs = std::filesystem;

/// The example of a plugin's library for Python: in the package lib/ddprun/python/ddprun, or, in
/// the wheel, where the prefix is the package. Empty if the plugin has none.
fs::path python_example(const PluginInfo& plugin) {
  const fs::path folder = plugin.file.parent_path().parent_path();
  for (const fs::path& package :
       {folder / "python" / "ddprun", folder.parent_path().parent_path()}) {
    const fs::path example = package / (plugin.name + "_example.py");
    if (fs::exists(example)) return example;
  }
  return {};
}

/// A program in Python: its comments say what it needs, the example does the rest. Where it is run
/// by a Python without torch it names one that has it, or says how to get one.
void print_python(const PluginInfo& plugin, const fs::path& example) {
  const fs::path package = example.parent_path();
  const std::string torch = environment_fact("torch");
  const char* const wheels_python = std::getenv("DDPRUN_PYTHON");  // set by the wheel's command
  const std::string with_torch =
      wheels_python != nullptr
          ? fmt::format("pipe it into {}", wheels_python)
          : fmt::format(
                "`python3 -m venv VENV && VENV/bin/pip install torch=={}`, then pipe it into "
                "VENV/bin/python3",
                torch);
  std::cout << fmt::format(
                   "# {} {}: {}\n# package  {}\n# library  {}\n# torch    {}, and no other\n",
                   to_string(plugin.kind), plugin.name, plugin.summary, package.string(),
                   (package / "libddprun_python.so").string(), torch)
            << "import sys\n\n";
  if (wheels_python == nullptr) {
    std::cout << "sys.path.insert(0, \"" << package.parent_path().string() << "\")\n";
  }
  std::cout << "WITH_TORCH = \"" << with_torch << "\"\n" << std::ifstream(example).rdbuf();
}

int describe_python(const PluginRegistry& registry, const std::string& name) {
  bool known = false;
  for (const PluginInfo& info : registry.list()) {
    if (info.name != name) continue;
    known = true;
    const fs::path example = python_example(info);
    if (example.empty()) continue;
    print_python(info, example);
    return kExitDone;
  }
  if (!known) throw_unknown(registry, name);
  throw ConfigError({.what = "it has no library for Python",
                     .where = "describe --python",
                     .got = name,
                     .expected = "a plugin with lib/ddprun/python/ddprun/<name>.py beside it",
                     .hint = "`ddprun list` shows where the plugins lie"});
}

}  // namespace

int quickstart_command(const Request& request) {
  Request shipped = request;
  shipped.paths = {shipped_file(std::filesystem::path(kShippedConfigs) / "quickstart.yaml")};
  return run_batch(shipped);
}

int validate_command(const Request& request) {
  PlanCache cache;
  int status = kExitDone;
  for (const auto& file : collect_files(request.paths).files) {
    const PlannedFile plan =
        plan_file(file, {request.overrides, request.plugin_paths, request.output, 0}, cache);
    if (!plan.error.empty()) {
      std::cerr << "error: " << plan.error << "\n";
      status = kExitUsage;
      continue;
    }
    std::cout << fmt::format(
        "{}: valid, {}{}\n", printable_line(file.string()),
        counted(std::ssize(plan.runs), "experiment"),
        plan.report.repeats == 1
            ? ""
            : fmt::format(", {}{} runs each", plan.report.open() ? "up to " : "",
                          plan.report.repeats));
    const auto count =
        std::ranges::count_if(plan.runs, [](const auto& run) { return !run.not_here.empty(); });
    if (count > 0) {
      std::cout << fmt::format("{}: this machine cannot run {} of them: {}\n",
                               printable_line(file.string()), count, obstacles(plan));
    }
    for (const PlannedRun& run : plan.runs) {
      if (request.verbosity == 0) continue;
      std::cout << "--- # " << run.experiment.label << "\n" << to_yaml(run.resolved) << "\n";
      const auto account = account_of(run);
      if (!account) continue;
      const std::string label = run.experiment.label.empty() ? plan.name : run.experiment.label;
      std::istringstream table(account_output({{label, *account}}, ReportFormat::table, {}));
      for (std::string line; std::getline(table, line);) std::cout << "# " << line << "\n";
    }
  }
  return status;
}

int list_command(const Request& request) {
  const PluginRegistry registry = open_registry(request);
  TextTable table;
  table.columns = {
      {"kind", false}, {"name", false}, {"version", false}, {"summary", false}, {"file", false, 1}};
  for (const PluginInfo& info : registry.list()) {
    table.add({to_string(info.kind), info.name, info.version, info.summary, info.file.string()});
  }
  const Terminal terminal = terminal_of(stdout);
  if (table.lines.empty()) {
    std::cout << "no plugins found\n";
  } else {
    std::cout << table.render(terminal.width, terminal.colour);
  }
  if (table.lines.empty() || request.verbosity > 0) {
    std::cout << "\nsearched, in this order:\n";
    for (const auto& folder : registry.folders()) std::cout << "  " << folder.string() << "\n";
  }
  for (const std::string& refusal : registry.refused()) std::cerr << "refused: " << refusal << "\n";
  return kExitDone;
}

int describe_command(const Request& request) {
  const PluginRegistry registry = open_registry(request);
  if (request.python) return describe_python(registry, request.name);
  const int width = terminal_of(stdout).width;
  bool found = false;
  for (const auto& [section, options] : describe_sections(experiment_kinds())) {
    if (section != request.name) continue;
    std::cout << "section `" << section << ":` of an experiment\n\n";
    print_options(options, width);
    found = true;
  }
  for (const PluginInfo& info : registry.list()) {
    if (info.name != request.name) continue;
    std::cout << (found ? "\n" : "") << to_string(info.kind) << " " << info.name << " "
              << info.version << ": " << info.summary << "\n"
              << info.file.string() << "\n\n";
    const std::shared_ptr<Plugin> plugin = registry.create(info.kind, info.name);
    print_options(list_options([&](Options& options) { plugin->declare_options(options); }), width);
    found = true;
  }
  if (!found) throw_unknown(registry, request.name);
  return kExitDone;
}

std::string cmake_folder() {
  const fs::path folder = own_library_file("core").parent_path() / "cmake" / "ddprun";
  if (!fs::exists(folder)) {
    throw ConfigError({.what = "this ddprun is not installed, so it has no CMake package",
                       .where = "--cmake-dir",
                       .got = "nothing in " + folder.string(),
                       .expected = "the wheel, the Debian package, or a folder that was installed",
                       .hint = "cmake --install build/release --prefix ~/ddprun"});
  }
  return folder.string();
}

std::string version_text() {
  std::string text = fmt::format("ddprun {}", DDPRUN_VERSION);
  for (const char* fact : {"torch", "gloo", "compiler", "build"}) {
    text += fmt::format("\n{} {}", fact, environment_fact(fact));
  }
  return text;
}

int schema_command(const Request& request) {
  const PluginRegistry registry = open_registry(request);
  for (const std::string& refusal : registry.refused()) std::cerr << "refused: " << refusal << "\n";
  const std::string text = lines_of(experiment_schema(experiment_kinds(), registry));
  write_out(request.output.empty() ? kStdout : request.output,
            [&text](const TextSink& sink) { sink(text); });
  return kExitDone;
}

}  // namespace ddprun
