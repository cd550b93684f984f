// The command line of ddprun.
#pragma once

namespace ddprun {

/// Parses the command line and runs the command. Returns the exit status.
int run_command_line(int argc, char** argv);

}  // namespace ddprun
