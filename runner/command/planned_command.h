// What commands that start ranks begin with: their files planned, or refused on all ranks alike.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/comm/launch/rendezvous.h"
#include "runner/command/request.h"
#include "runner/launch/plan.h"

namespace ddprun {

struct PlannedCommand {
  std::string_view name;  ///< "run": all ranks of a launch must run the same
  /// Why it does not run; empty: it runs. `from_folder`: FileList's. May throw Error.
  std::function<std::vector<std::string>(const std::vector<PlannedFile>& files, bool from_folder)>
      refusals;
  /// Returns the exit status. `joined`: this process's place in the launch that it joined.
  std::function<int(std::vector<PlannedFile> files, std::optional<RankInfo> joined)> run;
};

/// Plans the files of the request and runs the command with them. Where it is refused, or the ranks
/// of a launch that this process joined do not agree, nothing runs and stderr says why. Returns the
/// exit status. Throws what `refusals` and `run` throw, and CommError if a rank does not come.
int run_planned(const Request& request, const PlannedCommand& command);

}  // namespace ddprun
