// Parses the command line, and calls the command that it names.
#include "runner/command/command_line.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/launch/launch_environment.h"
#include "ddprun/config/options_io.h"
#include "runner/command/commands.h"
#include "runner/command/doctor.h"
#include "runner/command/request.h"
#include "runner/launch/memory_words.h"

namespace ddprun {

namespace {

struct Command {
  std::string_view name;
  int (*run)(const Request&);
};
constexpr std::array<Command, 6> kCommands = {{{"run", run_batch},
                                               {"validate", validate_command},
                                               {"list", list_command},
                                               {"describe", describe_command},
                                               {"verify", verify_command},
                                               {"doctor", doctor_command}}};

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  return found == kCommands.end() ? nullptr : &*found;
}

constexpr const char* kExamples = R"(Examples:
  ddprun configs/quickstart.yaml                 compare what the file's sweep lists
  ddprun configs/ --resume                       every YAML below a folder, but rows that are done
  ddprun my.yaml --set world.size=4 --set train.steps=50
  ddprun validate my.yaml                        check it without running anything
  ddprun list                                    the strategies, precisions and attentions found
  ddprun describe train                          the keys of a section, or of a plugin
  ddprun describe flash --python | python3       what has a library for PyTorch, used from Python
  ddprun verify my.yaml                          compare with one process, parameter by parameter
  ddprun doctor                                  what this machine gives to runs, found out by trying it
  torchrun --no-python --nproc-per-node 2 ddprun my.yaml

Exit status: 0 done; 1 a run or its proof failed; 2 bad usage or configuration, nothing ran;
130 after Ctrl-C (128 + the signal).)";

void add_common_options(CLI::App& command, Request& request) {
  // Repeatable options take one value each time: `--set a=1 file.yaml` must leave the file alone.
  command
      .add_option("--plugin-path", request.plugin_paths,
                  "Look for plugins in DIR first (repeatable)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  // Counted after parsing: versions of CLI11 differ in what a repeated flag on a number gives.
  command.add_flag("-v,--verbose")->description("Say more; -vv: everything");
}

void add_file_options(CLI::App& command, Request& request) {
  command
      .add_option("files", request.paths,
                  "Experiments: YAML files, or folders of them with their subfolders")
      ->type_name("FILE|FOLDER")
      ->required();
  command
      .add_option("--set", request.overrides,
                  "Replace a value of the YAML, as in train.steps=20 (repeatable)")
      ->type_name("KEY.PATH=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--output", request.output,
                  "Write results under DIR instead of the YAML's output.dir")
      ->type_name("DIR");
  add_common_options(command, request);
}

void declare_commands(CLI::App& app, Request& request) {
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text,
                       "Versions of ddprun, torch, gloo and the compiler");
  app.add_flag_callback(
      "--cmake-dir",
      [] {
        std::cout << cmake_folder() << "\n";
        throw CLI::Success();
      },
      "The folder of the CMake package, for find_package(ddprun PATHS ...)");
  app.footer(kExamples);

  CLI::App* run = app.add_subcommand("run", "Run experiments (the default: `ddprun FILE.yaml`)");
  add_file_options(*run, request);
  run->add_flag("--resume", request.resume, "Take over rows that an earlier result already has");
  run->add_flag("--quiet", request.quiet, "Only the table, and errors");

  CLI::App* validate = app.add_subcommand(
      "validate", "Check experiments without running them (-v: show them resolved)");
  add_file_options(*validate, request);

  add_common_options(
      *app.add_subcommand("list", "List the plugins found (-v: and where they were looked for)"),
      request);

  CLI::App* describe = app.add_subcommand(
      "describe",
      "Options of a plugin, or keys of a section (model, data, world, optimizer, train)");
  describe->add_option("name", request.name, "Plugin or section")->required();
  describe->add_flag("--python", request.python,
                     "How a program in Python uses it, as a program that does");
  add_common_options(*describe, request);

  CLI::App* verify = app.add_subcommand(
      "verify", "Compare a data-parallel run with one process on the same global batch");
  add_file_options(*verify, request);
  verify
      ->add_option("--bound", request.bound,
                   "Largest absolute difference of a gradient that passes, and relative of a loss")
      ->capture_default_str();
  verify->add_option("--parameter-bound", request.parameter_bound,
                     "Largest absolute difference of a parameter after a step of SGD");

  CLI::App* doctor = app.add_subcommand(
      "doctor", "Check this machine: processor, memory, backends, plugins, GPUs");
  doctor->add_flag("--json", request.json, "Print the findings as JSON");
  add_common_options(*doctor, request);
}

/// When this process was started: before main() lies the loading of LibTorch, which the user waits
/// for too. Without /proc nobody says, and it is now.
std::int64_t process_start_ns() {
  std::ifstream in("/proc/self/stat");
  const std::string stat((std::istreambuf_iterator<char>(in)), {});
  const std::size_t name_end = stat.rfind(") ");  // the name may hold spaces
  if (name_end == std::string::npos) return now_ns();
  std::istringstream fields(stat.substr(name_end + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;  // 22: start time, clock ticks since boot
  timespec boot = {};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const double age_s = static_cast<double>(boot.tv_sec) + static_cast<double>(boot.tv_nsec) * 1e-9 -
                       std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return now_ns() - static_cast<std::int64_t>(age_s * 1e9);
}

void set_up_logging(const Request& request) {
  const std::optional<RankInfo> joined = rank_info_from_environment();
  auto logger = spdlog::stderr_color_mt("ddprun");
  logger->set_pattern(joined ? "[rank " + std::to_string(joined->rank) + "] [%^%l%$] %v"
                             : "[%^%l%$] %v");
  logger->set_level(request.quiet            ? spdlog::level::err
                    : request.verbosity == 0 ? spdlog::level::warn
                    : request.verbosity == 1 ? spdlog::level::info
                                             : spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

/// A word that is neither a command nor a file, but almost a command.
void refuse_mistyped_command(const std::string& word) {
  const bool plain = word.find_first_of("./-") == std::string::npos;
  if (!plain || std::filesystem::exists(word)) return;
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = nearest(word, names);
  if (near.empty()) return;
  throw ConfigError({.what = "no such command, file or folder",
                     .where = word,
                     .got = "nothing of that name",
                     .expected = "a command, an experiment's YAML file, or a folder of them",
                     .hint = "did you mean `ddprun " + near + "`?"});
}

/// The arguments for the parser, last first, as it wants them; without a command it is `run`.
std::vector<std::string> parser_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string first = arguments.empty() ? "" : arguments[0];
  const bool is_about =
      first == "--help" || first == "-h" || first == "--version" || first == "--cmake-dir";
  if (find_command(first) == nullptr && !is_about) {
    refuse_mistyped_command(first);
    arguments.insert(arguments.begin(), "run");
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

int parse_and_run(int argc, char** argv) {
  Request request;
  request.launch_ns = process_start_ns();
  request.command_line.assign(argv, argv + argc);
  CLI::App app(
      "Trains and benchmarks transformer language models under data parallelism, and proves what "
      "ran.",
      "ddprun");
  app.failure_message([](const CLI::App* at, const CLI::Error& error) {
    return printable(CLI::FailureMessage::simple(at, error));
  });
  declare_commands(app, request);
  if (argc < 2) {
    std::cerr << app.help();
    return kExitUsage;
  }
  try {
    app.parse(parser_arguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  const CLI::App& command = *app.get_subcommands().front();
  request.verbosity = static_cast<int>(command.count("--verbose"));
  set_up_logging(request);
  return find_command(command.get_name())->run(request);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    if (dynamic_cast<const ConfigError*>(&error) || dynamic_cast<const PluginError*>(&error)) {
      return kExitUsage;
    }
  } catch (const std::exception& error) {
    const std::string text =
        says_out_of_memory(error) ? Error(memory_error(error)).what() : message_of(error);
    std::cerr << "error: " << printable(text) << "\n";
  }
  return kExitFailed;
}

}  // namespace ddprun
