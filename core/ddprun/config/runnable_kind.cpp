// What a kind does that has nothing of its own to do.
#include "ddprun/config/runnable_kind.h"

#include "ddprun/base/error.h"
#include "ddprun/config/experiment.h"

namespace ddprun {

std::vector<Account> RunnableKind::accounts(std::span<const Experiment* const>,
                                            const PluginRegistry&,
                                            std::int64_t /*ranks_per_host*/) const {
  return {};
}

void RunnableKind::check_verify(const Experiment& experiment, const PluginRegistry&,
                                bool /*parameter_bound*/) const {
  throw ConfigError({.what = "experiment " + name() + " has nothing to verify",
                     .where = experiment.document.origin,
                     .got = "`ddprun verify` of it",
                     .expected = "an experiment that one process can repeat",
                     .hint = "run it: it checks its own data, and the column *proof* says so"});
}

void RunnableKind::check_lockstep(const Experiment& leads, const Experiment& /*follows*/,
                                  const PluginRegistry&) const {
  throw ConfigError({.what = "experiment " + name() + " has no steps that could be compared",
                     .where = leads.document.origin,
                     .got = "`ddprun diff` of it",
                     .expected = "experiments that train",
                     .hint = "run both: `ddprun compare` compares their figures"});
}

}  // namespace ddprun
