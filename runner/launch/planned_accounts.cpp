// Asks a kind for the accounts of as many runs at once as it may.
#include "runner/launch/planned_accounts.h"

#include <algorithm>
#include <iterator>

#include "ddprun/experiments/kinds.h"

namespace ddprun {

std::optional<Account> account_of(const PlannedRun& run) {
  return accounts_of({&run, 1}, 0).front();
}

std::vector<std::optional<Account>> accounts_of(std::span<const PlannedRun> runs,
                                                std::int64_t ranks_per_host) {
  std::vector<std::optional<Account>> out;
  while (out.size() < runs.size()) {
    const PlannedRun& first = runs[out.size()];
    if (first.account && ranks_per_host == 0) {
      out.push_back(first.account);
      continue;
    }
    std::vector<const Experiment*> alike;
    for (const PlannedRun& run : runs.subspan(out.size())) {
      const bool same = run.experiment.kind == first.experiment.kind &&
                        run.registry == first.registry && (!run.account || ranks_per_host > 0);
      if (!same) break;
      alike.push_back(&run.experiment);
    }
    auto found = first.experiment.kind->accounts(alike, *first.registry, ranks_per_host);
    if (found.empty()) out.resize(out.size() + alike.size());
    std::ranges::move(found, std::back_inserter(out));
  }
  return out;
}

}  // namespace ddprun
