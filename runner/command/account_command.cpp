// `ddprun account`: what each row would hold and send on so many ranks, without running any.
#include <fmt/format.h>

#include <iostream>

#include "ddprun/base/error.h"
#include "runner/command/account_options.h"
#include "runner/command/commands.h"
#include "runner/launch/plan.h"
#include "runner/report/account_table.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

std::vector<AccountLine> lines_of(const PlannedFile& plan, const AccountOptions& options) {
  std::vector<AccountLine> lines;
  for (const PlannedRun& run : plan.runs) {
    const auto account =
        run.experiment.kind->account(run.experiment, *run.registry, options.ranks_per_host);
    if (!account) {
      throw ConfigError({.what = "this kind of experiment has no account",
                         .where = plan.file.string(),
                         .got = "experiment " + run.experiment.kind->name(),
                         .expected = "an experiment that trains",
                         .hint = "run it: it takes what it says"});
    }
    const std::string label = run.experiment.label.empty() ? plan.name : run.experiment.label;
    lines.push_back({label, *account, options.memory_bytes, options.link});
  }
  return lines;
}

}  // namespace

int account_command(const Request& request) {
  const AccountOptions options = read_account_options(request.account);
  PlanCache cache;
  std::vector<AccountLine> lines;
  for (const auto& file : collect_files(request.paths).files) {
    const std::vector<std::int64_t> as_written = {0};
    for (const std::int64_t ranks : options.ranks.empty() ? as_written : options.ranks) {
      std::vector<std::string> overrides = request.overrides;
      if (ranks > 0) overrides.push_back(fmt::format("world.size={}", ranks));
      const PlannedFile plan =
          plan_file(file, {overrides, request.plugin_paths, request.output, 0}, cache);
      if (!plan.error.empty()) {
        std::cerr << "error: " << plan.error << "\n";
        return kExitUsage;
      }
      for (AccountLine& line : lines_of(plan, options)) lines.push_back(std::move(line));
    }
  }
  std::cout << account_output(lines, request.format, table_terminal(request.columns));
  return kExitDone;
}

}  // namespace ddprun
