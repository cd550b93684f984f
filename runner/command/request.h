// A command as the user typed it, parsed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/model/sampling.h"
#include "runner/command/account_options.h"
#include "runner/launch/exit_status.h"
#include "runner/report/report_output.h"

namespace ddprun {

enum class Shell : std::uint8_t { bash, zsh, fish };
constexpr auto choice_names(Shell) { return std::array{"bash", "zsh", "fish"}; }

enum class CheckpointAction : std::uint8_t { inspect, verify, diff, export_hf };
constexpr auto choice_names(CheckpointAction) {
  return std::array{"inspect", "verify", "diff", "export"};
}

struct Request {
  int (*command)(const Request&) = nullptr;  ///< that the command line names
  bool keeps_results = false;                ///< in a folder, whoever reads what the command prints
  std::vector<std::string> paths;            ///< files and folders
  std::string name;                          ///< of `describe` and `new`
  std::string kind;                          ///< of `new`
  Shell shell = Shell::bash;                 ///< of `completion`
  std::vector<std::string> overrides;        ///< --set
  std::vector<std::string> plugin_paths;     ///< --plugin-path
  std::string threshold;                     ///< --threshold of `compare`
  std::string output;                        ///< --output, --out, -o
  std::optional<double> bound;               ///< --bound of `verify`
  std::optional<double> parameter_bound;     ///< --parameter-bound of `verify`
  std::optional<std::int64_t> steps;         ///< --steps of `diff`; none: all of the file
  std::optional<double> ulp;                 ///< --ulp of `diff`
  ReportFormat format = ReportFormat::table;  ///< --format of `run`
  std::optional<int> columns;                 ///< --columns of `run`; 0: no limit
  std::int64_t step = 0;                      ///< --step of `data`
  std::string vocabulary;                     ///< --vocab of `tokenize`
  std::string pattern;                        ///< --pattern of `tokenize` and `tokenizer`
  std::string end_token;                      ///< --end of `tokenize`
  std::vector<std::string> special;           ///< --special of `tokenizer`
  std::int64_t vocabulary_size = 0;           ///< --size of `tokenizer`
  std::string prompt;                         ///< --prompt of `sample`
  Sampling sampling;                          ///< of `sample`
  AccountWords account;                       ///< of `account`
  CheckpointAction checkpoint_action = CheckpointAction::inspect;  ///< of `checkpoint`
  std::int64_t max_restarts = 0;                                   ///< --max-restarts of `run`
  bool resume = false;
  bool quiet = false;
  std::string over;                       ///< --over of `tune`
  double minutes = 10;                    ///< --minutes of `tune`
  bool json = false;                      ///< --json of `doctor`
  bool python = false;                    ///< --python of `describe`
  int verbosity = 0;                      ///< how many -v
  std::vector<std::string> command_line;  ///< as typed, for result.json
  std::int64_t launch_ns = 0;             ///< when the process started, in now_ns()
};

}  // namespace ddprun
