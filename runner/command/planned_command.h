// What commands that start ranks share: their files planned, or refused on all ranks alike; and
// their words when a signal ends them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/comm/launch/rendezvous.h"
#include "runner/command/request.h"
#include "runner/launch/plan.h"
#include "runner/report/result_folder.h"

namespace ddprun {

/// Of a command that starts its ranks itself, whatever launch there is.
struct OwnRanks {
  std::string_view of = {};     ///< whose: "each candidate"; empty: the command joins a launch
  std::string_view usage = {};  ///< "ddprun tune FILE.yaml"
};

struct PlannedCommand {
  std::string_view name;  ///< "run": all ranks of a launch must run the same
  /// Why it does not run; empty: it runs. `from_folder`: FileList's. May throw Error.
  std::function<std::vector<std::string>(const std::vector<PlannedFile>& files, bool from_folder)>
      refusals;
  /// Returns the exit status. `joined`: this process's place in the launch that it joined.
  std::function<int(std::vector<PlannedFile> files, std::optional<RankInfo> joined)> run;
  OwnRanks own_ranks = {};  ///< if there are some, it is refused in a launch
};

/// obstacles() of each file that has some: of a command that runs all or nothing.
std::vector<std::string> refusals_of_all(const std::vector<PlannedFile>& files);
/// Of a command that runs what can run: files that are wrong, unless they were found in a folder;
/// or all, if this machine can run nothing of any. With `resume` earlier rows may stand in for what
/// cannot run.
std::vector<std::string> refusals_of_some(const std::vector<PlannedFile>& files, bool from_folder,
                                          bool resume);

/// Plans the files of the request and runs the command with them. Where it is refused, or the ranks
/// of a launch that this process joined do not agree, nothing runs and stderr says why. Returns the
/// exit status. Throws what `refusals` and `run` throw, CommError if a rank does not come, and
/// ConfigError in a launch that the command does not join.
int run_planned(const Request& request, const PlannedCommand& command);

/// What stderr says of a file of that name whose runs the user ended. `folder`: what was done is
/// there, if it shows anything; null: nothing was written.
std::string interrupted_words(int signal, const std::string& name, const ResultFolder* folder);

}  // namespace ddprun
