// The command line of ddprun.
//
// Family: command_line.cpp command_options.cpp
#pragma once

#include "runner/command/request.h"

namespace CLI {
class App;
}

namespace ddprun {

/// Parses the command line and runs the command. Returns the exit status.
int run_command_line(int argc, char** argv);

/// The commands and their options, as CLI11 is told them. What is parsed goes to `request`, which
/// outlives `app`, and so does the command that was named.
void declare_commands(CLI::App& app, Request& request);

/// Prints the script of a shell that completes all that declare_commands() declares.
int completion_command(const Request& request);

}  // namespace ddprun
