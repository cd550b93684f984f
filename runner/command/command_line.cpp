// Parses the command line, and calls the command that it names.
#include "runner/command/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
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

#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/launch/launch_environment.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/config/options_io.h"
#include "runner/command/commands.h"
#include "runner/command/completion.h"
#include "runner/command/doctor.h"
#include "runner/command/request.h"
#include "runner/launch/memory_words.h"

namespace ddprun {

namespace {

int completion_command(const Request& request);

struct Command {
  std::string_view name;
  int (*run)(const Request&);
};
constexpr std::array<Command, 9> kCommands = {{{"quickstart", quickstart_command},
                                               {"run", run_batch},
                                               {"validate", validate_command},
                                               {"account", account_command},
                                               {"list", list_command},
                                               {"describe", describe_command},
                                               {"verify", verify_command},
                                               {"doctor", doctor_command},
                                               {"completion", completion_command}}};

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  return found == kCommands.end() ? nullptr : &*found;
}

constexpr const char* kFirst = R"(
Start with:
  ddprun quickstart        compare six strategies on two ranks of this machine, in about a minute
  ddprun my.yaml           run experiments of your own: YAML files, or folders of them
  ddprun describe train    what a file may say: the keys of a section, the options of a plugin
  ddprun doctor            what this machine gives to runs, found out by trying it
)";

constexpr const char* kExamples = R"(
Examples:
  ddprun my.yaml --set world.size=4 --set train.steps=50
  ddprun configs/ --resume                       every YAML below a folder, but rows that are done
  ddprun my.yaml --format json | jq .table       the same figures for other programs
  ddprun validate my.yaml                        check it without running anything
  ddprun account my.yaml --ranks 8 --memory 80GB what it would hold and send, and whether it fits
  ddprun verify my.yaml                          compare with one process, parameter by parameter
  ddprun describe flash --python | python3       what has a library for PyTorch, used from Python
  torchrun --no-python --nproc-per-node 2 ddprun my.yaml

Exit status: 0 done; 1 a run or its proof failed; 2 bad usage or configuration, nothing ran;
130 after Ctrl-C (128 + the signal).
)";

/// The help of no command: what to type first, then what there is.
std::string help_text(const CLI::App& app) {
  std::string out = app.get_description() + "\n" + kFirst +
                    "\nCommands (`ddprun COMMAND --help` has the options of each):\n";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    out += fmt::format("  {:<12} {}\n", command->get_name(), command->get_description());
  }
  out += "\nOptions:\n";
  for (const CLI::Option* option : app.get_options()) {
    out += fmt::format("  {:<12} {}\n", "--" + option->get_lnames().front(),
                       option->get_description());
  }
  return out + kExamples;
}

void add_common_options(CLI::App& command, Request& request) {
  // Repeatable options take one value each time: `--set a=1 file.yaml` must leave the file alone.
  command
      .add_option("--plugin-path", request.plugin_paths,
                  "Look for plugins in DIR first (repeatable)")
      ->type_name(kFolderValue)
      ->allow_extra_args(false);
  // Counted after parsing: versions of CLI11 differ in what a repeated flag on a number gives.
  command.add_flag("-v,--verbose")->description("Say more; -vv: everything");
}

void add_files(CLI::App& command, Request& request) {
  command
      .add_option("files", request.paths,
                  "Experiments: YAML files, or folders of them with their subfolders")
      ->type_name(kFileValue)
      ->required();
}

void add_experiment_options(CLI::App& command, Request& request) {
  command
      .add_option("--set", request.overrides,
                  "Replace a value of the YAML, as in train.steps=20 (repeatable)")
      ->type_name(kOverrideValue)
      ->allow_extra_args(false);
  command
      .add_option("--output", request.output,
                  "Write results under DIR instead of the YAML's output.dir")
      ->type_name(kFolderValue);
  add_common_options(command, request);
}

/// An argument that is one of names, which its help shows.
template <NamedEnum E>
void add_choice(CLI::App& command, const std::string& name, E& choice, const std::string& help) {
  const std::vector<std::string> names(kChoiceNames<E>.begin(), kChoiceNames<E>.end());
  command
      .add_option_function<std::string>(
          name, [&choice](const std::string& text) { choice = value_named<E>(text); }, help)
      ->type_name(fmt::format("{}", fmt::join(names, "|")))
      ->check(CLI::IsMember(names).description(""));
}

void add_format_options(CLI::App& command, Request& request) {
  add_choice(command, "--format", request.format,
             "What is printed: a table (the default), or all of its rows for other programs");
  command
      .add_option("--columns", request.columns,
                  "Width of the table; 0: no limit (default: the terminal's, 100 in a pipe)")
      ->type_name("N")
      ->check(CLI::Range(0, 100000).description(""));
}

void add_run_options(CLI::App& command, Request& request) {
  add_experiment_options(command, request);
  command.add_flag("--resume", request.resume, "Take over rows that an earlier result already has");
  command.add_flag("--quiet", request.quiet, "Only the table, and errors");
  add_format_options(command, request);
}

void add_account_options(CLI::App& command, Request& request) {
  command.add_option("--ranks", request.account.ranks, "For so many ranks each, as in 1,2,8")
      ->type_name("N,...");
  command
      .add_option("--memory", request.account.memory,
                  "What a rank has, as in 80GB: says whether it fits")
      ->type_name("SIZE");
  command
      .add_option("--link", request.account.link,
                  "Bandwidth and latency between ranks, as in 200GB/s,5us: how long a step takes")
      ->type_name("RATE,TIME");
  command
      .add_option("--host-link", request.account.host_link, "The same between hosts (with --hosts)")
      ->type_name("RATE,TIME");
  command
      .add_option("--tflops", request.account.tflops,
                  "Of a rank's matrix products (with --link); else what this machine gives")
      ->type_name("X");
  command
      .add_option("--memory-rate", request.account.memory_rate,
                  "Of a rank's memory (with --tflops), as in 3TB/s; else all is in --tflops")
      ->type_name("RATE");
  command.add_option("--hosts", request.account.hosts, "Hosts x ranks of each, as in 8x8")
      ->type_name("NxN");
  add_experiment_options(command, request);
  add_format_options(command, request);
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
  add_run_options(
      *app.add_subcommand("quickstart",
                          "Run configs/quickstart.yaml, which comes with ddprun, into ./results"),
      request);

  CLI::App* run = app.add_subcommand("run", "Run experiments (the default: `ddprun FILE.yaml`)");
  add_files(*run, request);
  add_run_options(*run, request);

  CLI::App* validate = app.add_subcommand(
      "validate", "Check experiments without running them (-v: show them resolved)");
  add_files(*validate, request);
  add_experiment_options(*validate, request);

  CLI::App* account = app.add_subcommand(
      "account", "Say what memory and collectives experiments would take, without running them");
  add_files(*account, request);
  add_account_options(*account, request);

  add_common_options(
      *app.add_subcommand("list", "List the plugins found (-v: and where they were looked for)"),
      request);

  CLI::App* describe = app.add_subcommand(
      "describe",
      "Options of a plugin, or keys of a section (model, data, world, optimizer, train)");
  describe->add_option("name", request.name, "Plugin or section")
      ->type_name(kNameValue)
      ->required();
  describe->add_flag("--python", request.python,
                     "How a program in Python uses it, as a program that does");
  add_common_options(*describe, request);

  CLI::App* verify = app.add_subcommand(
      "verify", "Compare a data-parallel run with one process on the same global batch");
  add_files(*verify, request);
  add_experiment_options(*verify, request);
  verify
      ->add_option(
          "--bound", request.bound,
          "Largest difference that passes, relative to a parameter's largest gradient and to "
          "the loss")
      ->capture_default_str();
  verify->add_option("--parameter-bound", request.parameter_bound,
                     "Largest absolute difference of a parameter after a step of SGD");

  CLI::App* doctor = app.add_subcommand(
      "doctor", "Check this machine: processor, memory, backends, plugins, GPUs");
  doctor->add_flag("--json", request.json, "Print the findings as JSON");
  add_common_options(*doctor, request);

  CLI::App* completion = app.add_subcommand(
      "completion", "Print a script that completes what is typed after `ddprun`");
  add_choice(*completion, "shell", request.shell, "For which shell");
  completion->get_option("shell")->required();
  add_common_options(*completion, request);
}

/// What completion must know of an option; only long names are offered.
CompletedOption completed(const CLI::Option& option) {
  const bool argument = option.get_positional();
  return {.name = argument ? "" : "--" + option.get_lnames().front(),
          .help = option.get_description(),
          .value = option.get_items_expected_max() == 0 ? "" : option.get_type_name()};
}

int completion_command(const Request& request) {
  CLI::App app;
  Request unused;
  declare_commands(app, unused);
  CompletionWords words = declared_words(open_registry(request));
  for (const CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    words.commands.push_back({{command->get_name(), command->get_description()}, {}});
    for (const CLI::Option* option : command->get_options()) {
      words.commands.back().options.push_back(completed(*option));
    }
  }
  for (const CLI::Option* option : app.get_options()) {  // where a command would stand
    if (option == app.get_help_ptr()) continue;          // which the commands have too
    words.commands.push_back({{completed(*option).name, option->get_description()}, {}});
  }
  std::cout << completion_script(request.shell, words);
  return kExitDone;
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
    std::cerr << help_text(app);
    return kExitUsage;
  }
  try {
    app.parse(parser_arguments(argc, argv));
  } catch (const CLI::CallForHelp&) {
    if (app.get_subcommands().empty()) {
      std::cout << help_text(app);
    } else {
      std::cout << app.help();
    }
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  const CLI::App& command = *app.get_subcommands().front();
  request.verbosity = static_cast<int>(command.count("--verbose"));
  set_up_logging(request);
  return find_command(command.get_name())->run(request);
}

}  // namespace

namespace {

int run_and_report(int argc, char** argv) {
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

}  // namespace

int run_command_line(int argc, char** argv) {
  const int status = run_and_report(argc, argv);
  finish_mpi();
  return status;
}

}  // namespace ddprun
