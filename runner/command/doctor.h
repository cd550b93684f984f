// `ddprun doctor`: what this machine gives to runs, found out by trying it.
// Family: doctor.cpp doctor_machine.cpp doctor_ranks.cpp
#pragma once

#include <string>
#include <vector>

#include "runner/command/request.h"

namespace ddprun {

enum class Health {
  ok,
  absent,   ///< not here, and nothing needs it unless an experiment asks for it
  warning,  ///< runs work, but slower or on less than the machine has
  failed,   ///< runs do not work
};
const char* to_string(Health health);

/// One line of the report.
struct Finding {
  std::string name;  ///< what was looked at: "cores", "gloo all-reduce"
  Health health = Health::ok;
  std::string text;       ///< what was found, on one line
  std::string hint = {};  ///< what to do about it
};

/// Of ranks on this host: each backend by an all-reduce between processes, the host's name. Forks,
/// so it comes before anything that starts threads.
std::vector<Finding> examine_ranks();
/// Of device cuda: library, driver, devices, NCCL by an all-reduce over all devices. Forks.
std::vector<Finding> examine_cuda();
/// Of processor and memory; measures for about two seconds.
std::vector<Finding> examine_machine();
/// Of the plugin libraries on the search path.
std::vector<Finding> examine_plugins(const Request& request);

/// Runs all of these; prints a table, or JSON with --json. Returns 0, or 1 if a finding is
/// `failed`.
int doctor_command(const Request& request);

}  // namespace ddprun
