// `ddprun doctor`: tries out what this machine offers to runs.
// Family: doctor.cpp doctor_ranks.cpp
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ddprun/base/choice.h"
#include "runner/command/request.h"

namespace ddprun {

enum class Health {
  ok,
  absent,   ///< not here, and nothing needs it unless an experiment asks for it
  warning,  ///< runs work, but slower or on less than the machine has
  failed,   ///< runs do not work
};
constexpr auto choice_names(Health) { return std::array{"ok", "absent", "warning", "failed"}; }

struct Observation {
  std::string name;  ///< what was looked at: "cores", "gloo all-reduce"
  Health health = Health::ok;
  std::string text;       ///< what was found, on one line
  std::string hint = {};  ///< what to do about it
};

/// Ranks on this host: tries each backend with an all-reduce between processes, and the host's
/// name. It forks, so call it before anything that starts threads.
std::vector<Observation> examine_ranks();
/// Backend mpi: library and MPI. Its ranks are not tried, because mpirun starts them.
Observation examine_mpi();
/// Device cuda: library, driver, devices, and NCCL with an all-reduce over all devices. It forks.
std::vector<Observation> examine_cuda();
/// Processor and memory. It measures for about two seconds.
std::vector<Observation> examine_machine();
std::vector<Observation> examine_plugins(const Request& request);

/// Runs all of these and prints a table, or JSON with --json. Returns 0, or 1 if a finding is
/// `failed`.
int doctor_command(const Request& request);

}  // namespace ddprun
