// The ranks of a launch that was joined agree on what they run, before anything is built.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/comm/launch/rendezvous.h"
#include "runner/launch/plan.h"

namespace ddprun {

/// Compares this rank's plan with those of all others: resolved experiments, plugins (name,
/// version, hash of the library), ddprun and torch (likewise), variables that change what is
/// computed or how fast (measure/environment.h), and the command. Folders may
/// differ: where plugins lie, and where rank 0 writes. Returns the exit status: done; or usage on
/// every rank, if they differ or a rank has refused its plan. Then stderr has the keys and their
/// values, or that rank's words. Throws CommError if a rank does not come.
///
/// The ranks also tell each other their hosts and cores: where bound_ranks() says so, this one
/// keeps its own (keep_own_cores()).
int agree_on_plan(const RankInfo& joined, std::string_view command,
                  const std::vector<PlannedFile>& files);

/// Says on stderr that this process refuses what it should run, then tells the other ranks of the
/// launch that it joined, if any, which refuse it too. Returns the exit status, when they have
/// heard it or do not come.
int refuse_plan(const std::optional<RankInfo>& joined, const std::string& refusal);

/// The text that agree_on_plan() compares.
std::string plan_text(std::string_view command, const std::vector<PlannedFile>& files);
/// What a rank brings to the agreement beside its plan.
struct CoreClaim {
  std::string host;  ///< host_identity()
  std::vector<int> cores;
};
/// For each rank, whether no two ranks of its host share a core, so that a launcher has bound them.
std::vector<bool> bound_ranks(const std::vector<CoreClaim>& ranks);
/// What is wrong with plans that ranks brought, in rank order; an empty `what`: nothing.
ErrorText compare_plans(const std::vector<std::string>& texts);

}  // namespace ddprun
