// Parses the command line, and calls the command that it names.
#include "runner/command_line/command_line.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "ddprun/base/child_process.h"
#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/config/options_io.h"
#include "runner/command/commands.h"
#include "runner/command_line/completion.h"
#include "runner/launch/memory_words.h"

namespace ddprun {

namespace {

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
  ddprun data my.yaml --step 3                   which tokens of its files each rank reads then
  ddprun compare results/before results/after --threshold 3%   has it become slower
  ddprun report results/before results/after     tables and charts of both, in one page for a browser
  ddprun sample saved --prompt 'The '            what the model of a checkpoint goes on with
  ddprun tokenizer train --size 10000 --out t.json *.txt; ddprun tokenize --vocab t.json --out t.bin *.txt
  ddprun schema --out ddprun.schema.json         what editors check and complete experiments by
  ddprun verify my.yaml                          compare with one process, parameter by parameter
  ddprun diff a.yaml b.yaml                      from equal weights: the first tensor in which they part
  ddprun tune my.yaml --minutes 5                the fastest strategy and buckets for it, by real runs
  ddprun describe flash --python | python3       what has a library for PyTorch, used from Python
  ddprun new strategy mine                       the sources of a plugin of your own, to begin with
  torchrun --no-python --nproc-per-node 2 ddprun my.yaml

Exit status: 0 done; 1 a run or its proof failed; 2 bad usage or configuration, nothing ran;
3 of `compare`: a row is slower than --threshold, of `diff`: one parts from the first; 130 after Ctrl-C (128 + the signal).
)";

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The help of no command: what to type first, then what there is.
std::string help_text(const CLI::App& app) {
  std::string out = app.get_description() + "\n" + kFirst +
                    "\nCommands (`ddprun COMMAND --help` has the options of each):\n";
  for (const CLI::App* command : commands_of(app)) {
    out += fmt::format("  {:<12} {}\n", command->get_name(), command->get_description());
  }
  out += "\nOptions:\n";
  for (const CLI::Option* option : app.get_options()) {
    out += fmt::format("  {:<12} {}\n", "--" + option->get_lnames().front(),
                       option->get_description());
  }
  return out + kExamples;
}

/// What completion must know of an option; only long names are offered.
CompletedOption completed(const CLI::Option& option) {
  const bool argument = option.get_positional();
  return {.name = argument ? "" : "--" + option.get_lnames().front(),
          .help = option.get_description(),
          .value = option.get_items_expected_max() == 0 ? "" : option.get_type_name()};
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
  auto logger = spdlog::stderr_color_mt("ddprun");
  logger->set_pattern("[%^%l%$] %v");
  logger->set_level(request.quiet            ? spdlog::level::err
                    : request.verbosity == 0 ? spdlog::level::warn
                    : request.verbosity == 1 ? spdlog::level::info
                                             : spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

/// A word that is neither a command nor a file, but almost a command.
void refuse_mistyped_command(const std::string& word, const std::vector<std::string>& names) {
  const bool plain = word.find_first_of("./-") == std::string::npos;
  if (!plain || std::filesystem::exists(word)) return;
  const std::string near = nearest(word, names);
  if (near.empty()) return;
  throw ConfigError({.what = "no such command, file or folder",
                     .where = word,
                     .got = "nothing of that name",
                     .expected = "a command, an experiment's YAML file, or a folder of them",
                     .hint = "did you mean `ddprun " + near + "`?"});
}

/// The arguments for the parser, last first, as it wants them; without a command it is `run`.
std::vector<std::string> parser_arguments(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string first = arguments.empty() ? "" : arguments[0];
  const bool is_about =
      first == "--help" || first == "-h" || first == "--version" || first == "--cmake-dir";
  const auto names =
      mapped(commands_of(app), [](const CLI::App* each) { return each->get_name(); });
  if (!contains(names, first) && !is_about) {
    refuse_mistyped_command(first, names);
    arguments.insert(arguments.begin(), "run");
  }
  std::ranges::reverse(arguments);
  return arguments;
}

/// A word that is not known, with the option that was probably meant, or the parser's own words.
ConfigError usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const CLI::App& at = chosen.empty() ? app : *chosen.front();
  const std::string command = chosen.empty() ? "ddprun" : "ddprun " + at.get_name();
  const std::string help = "`" + command + " --help` has its options";
  std::vector<std::string> names;
  for (const CLI::Option* option : at.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string options = list_text(names);
  const std::vector<std::string> unread = app.remaining(true);
  if (unread.empty()) {
    return ConfigError({.what = "the command line cannot be read",
                        .where = command,
                        .got = error.what(),
                        .expected = "what the command takes; its options are " + options,
                        .hint = help});
  }
  return ConfigError({.what = "unexpected argument",
                      .where = command,
                      .got = unread.front(),
                      .expected = options,
                      .hint = did_you_mean(unread.front(), names, help)});
}

void check_together(const Request& request) {
  if (request.columns && request.format != ReportFormat::table) {
    throw ConfigError({.what = "--columns has no effect",
                       .where = "the command line",
                       .got = fmt::format("--format {}", name_of(request.format)),
                       .expected = "--columns beside --format table, the default",
                       .hint = "remove one of the two: the other formats have all columns"});
  }
}

int parse_and_run(int argc, char** argv) {
  Request request;
  request.launch_ns = process_start_ns();
  request.command_line.assign(argv, argv + argc);
  CLI::App app(
      "Trains and benchmarks transformer language models under data parallelism, and proves what "
      "ran.",
      "ddprun");
  declare_commands(app, request);
  if (argc < 2) {
    std::cerr << help_text(app);
    return kExitUsage;
  }
  try {
    app.parse(parser_arguments(app, argc, argv));
  } catch (const CLI::CallForHelp&) {
    if (app.get_subcommands().empty()) {
      std::cout << help_text(app);
    } else {
      std::cout << app.help();
    }
    return kExitDone;
  } catch (const CLI::Success& told) {  // --version, --cmake-dir
    return app.exit(told);
  } catch (const CLI::ParseError& error) {
    throw usage_error(app, error);
  }
  request.verbosity = static_cast<int>(app.get_subcommands().front()->count("--verbose"));
  set_up_logging(request);
  check_together(request);
  // A reader that leaves takes no row that is done; what only prints ends with it.
  if (request.keeps_results) std::signal(SIGPIPE, SIG_IGN);
  return request.command(request);
}

int run_and_report(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    if (dynamic_cast<const ConfigError*>(&error) || dynamic_cast<const PluginError*>(&error)) {
      return kExitUsage;
    }
  } catch (const std::filesystem::filesystem_error& error) {
    const Error said({.what = "a file or a folder cannot be looked at",
                      .where = error.path1().string(),
                      .got = error.code().message(),
                      .expected = "what this user may read",
                      .hint = "mend its rights, or those of a folder above it"});
    std::cerr << "error: " << said.what() << "\n";
  } catch (const std::exception& error) {
    const std::string text =
        says_out_of_memory(error) ? Error(memory_error(error)).what() : message_of(error);
    std::cerr << "error: " << printable(text) << "\n";
  }
  return kExitFailed;
}

/// The exit status, when all that was printed has left this process.
int flushed(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  if (std::cout) return status;
  const int error = write_all(STDOUT_FILENO, "\n");  // the stream does not remember why
  const Error said({.what = "the output could not be written",
                    .where = "stdout",
                    .got = error == 0 ? "an error that is over" : std::strerror(error),
                    .expected = "a reader that stays, or room on the disk",
                    .hint = "results are in their folder: `ddprun explain FOLDER` prints a table "
                            "again"});
  std::cerr << "error: " << said.what() << "\n";
  return status == kExitDone ? kExitFailed : status;
}

}  // namespace

int completion_command(const Request& request) {
  CLI::App app;
  Request unused;
  declare_commands(app, unused);
  CompletionWords words = declared_words(open_registry(request));
  for (const CLI::App* command : commands_of(app)) {
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

int run_command_line(int argc, char** argv) {
  const int status = run_and_report(argc, argv);
  finish_mpi();
  return flushed(status);
}

}  // namespace ddprun
