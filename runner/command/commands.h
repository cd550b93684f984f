// The commands of the command line, whose help says what each is for (command_options.cpp); and the
// texts of --version and --cmake-dir.
//
// Family: commands.cpp account_command.cpp batch.cpp checkpoint_command.cpp compare_command.cpp
// Family: data_command.cpp diff_command.cpp new_command.cpp sample_command.cpp
// Family: tokenizer_command.cpp tune_command.cpp verify_command.cpp
#pragma once

#include <string>

#include "ddprun/config/registry.h"
#include "runner/command/request.h"

namespace ddprun {

/// The plugins of the search path, --plugin-path first.
PluginRegistry open_registry(const Request& request);

/// Plans everything, runs what may run, reports. Returns the exit status: 0 done, 1 a run failed,
/// 128 + signal when interrupted. A row that is not here is no failure, nor is one whose memory ran
/// out under the limit that its file sets. Files named one by one must all be valid, else nothing
/// runs and the status is 2. A folder's invalid files become failed rows of the report, and what
/// this machine cannot run becomes a row that is not here. If nothing can run the status is 2.
/// Throws ddprun::Error for what concerns no single run.
int run_batch(const Request& request);

int quickstart_command(const Request& request);
int validate_command(const Request& request);
int account_command(const Request& request);
int data_command(const Request& request);
/// Compares results of different times; the status is 3 if a row is slower than --threshold.
int compare_command(const Request& request);
int explain_command(const Request& request);
int report_command(const Request& request);
int list_command(const Request& request);
int describe_command(const Request& request);
int new_command(const Request& request);
int schema_command(const Request& request);
/// Looks at checkpoints; the status is 1 if one is damaged, or if two differ.
int checkpoint_command(const Request& request);
int sample_command(const Request& request);
int tokenize_command(const Request& request);
int tokenizer_command(const Request& request);
int verify_command(const Request& request);
/// The status is 3 if an experiment parts from the first beyond rounding.
int diff_command(const Request& request);
int tune_command(const Request& request);
std::string version_text();
/// The folder of the CMake package, for `--cmake-dir`. Throws ConfigError if there is none.
std::string cmake_folder();

}  // namespace ddprun
