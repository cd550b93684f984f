// `ddprun account`: what each row would hold and send on so many ranks, and how long it would take,
// without running any.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <tuple>

#include "ddprun/base/error.h"
#include "ddprun/device/device.h"
#include "ddprun/device/product_speed.h"
#include "ddprun/measure/environment.h"
#include "ddprun/measure/speed.h"
#include "runner/command/account_options.h"
#include "runner/command/commands.h"
#include "runner/launch/plan.h"
#include "runner/launch/planned_accounts.h"
#include "runner/report/account_table.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

/// The keys that make this run of its file: those that the sweep or --ranks set.
std::string yaml_of(const PlannedRun& run, bool with_ranks) {
  ConfigNode out;
  const auto take = [&](const std::string& path) {
    if (const ConfigNode* value = at_path(run.experiment.document, path)) {
      set_path(out, path, *value);
    }
  };
  for (const auto& [path, value] : run.experiment.point) take(path);
  if (with_ranks) take("world.size");
  return out.map.empty() ? std::string() : to_yaml(out);
}

/// What this machine gives to a rank, measured once a format, number of threads and of ranks.
class MachineRates {
 public:
  RankSpeed of(const PlannedRun& run, const Account& account, const AccountOptions& options) {
    const WorldConfig& world = run.experiment.world;
    if (world.device != DeviceKind::cpu) {
      throw ConfigError(
          {.what = "how fast a GPU multiplies is not measured here",
           .where = "the command line",
           .got = fmt::format("world.device {}, without --tflops", name_of(world.device)),
           .expected = "--tflops",
           .hint = "`ddprun -v` of a run there has its TFLOP/s"});
    }
    const std::int64_t local = options.ranks_per_host == 0 ? account.ranks : options.ranks_per_host;
    const auto share = std::max<std::int64_t>(1, usable_threads() / local);
    const auto threads =
        static_cast<int>(world.threads_per_rank > 0 ? world.threads_per_rank : share);
    const auto [rate, unknown] = rates_.try_emplace({account.products, threads, local});
    if (unknown) rate->second = measured(dtype_of(account.products), threads, local);
    return rate->second;
  }

 private:
  /// All ranks of a host read and write its memory at the same time.
  static RankSpeed measured(c10::ScalarType dtype, int threads, std::int64_t local) {
    at::set_num_threads(threads);
    const auto busy = std::min<std::int64_t>(usable_threads(), threads * local);
    return {
        .operations_per_s = kProductShare * product_flops(cpu_device(), dtype),
        .bytes_per_s = copy_bytes_per_second(static_cast<int>(busy)) / static_cast<double>(local)};
  }

  /// Of the rate of large products, what those of a step reach on a CPU (docs/account.md).
  static constexpr double kProductShare = 0.8;

  /// What the CPU multiplies where the format is that.
  static c10::ScalarType dtype_of(const std::string& products) {
    if (products == "bfloat16") return c10::kBFloat16;
    return products == "float16" ? c10::kHalf : c10::kFloat;
  }

  std::map<std::tuple<std::string, int, std::int64_t>, RankSpeed> rates_;
};

/// Without speeds.
std::vector<AccountLine> lines_of(const PlannedFile& plan, const AccountOptions& options) {
  std::vector<AccountLine> lines;
  const auto accounts = accounts_of(plan.runs, options.ranks_per_host);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const PlannedRun& run = plan.runs[i];
    if (!accounts[i]) {
      throw ConfigError({.what = "this kind of experiment has no account",
                         .where = plan.file.string(),
                         .got = "experiment " + run.experiment.kind->name(),
                         .expected = "an experiment that trains",
                         .hint = "run it: it takes what it says"});
    }
    const std::string label = run.experiment.label.empty() ? plan.name : run.experiment.label;
    lines.push_back({.label = label,
                     .account = *accounts[i],
                     .memory_bytes = options.memory_bytes,
                     .yaml = yaml_of(run, !options.ranks.empty())});
  }
  return lines;
}

}  // namespace

int account_command(const Request& request) {
  const AccountOptions options = read_account_options(request.account);
  PlanCache cache;
  std::vector<AccountLine> lines;
  std::vector<PlannedRun> runs;  // of the lines
  for (const auto& file : collect_files(request.paths).files) {
    const std::vector<std::int64_t> as_written = {0};
    for (const std::int64_t ranks : options.ranks.empty() ? as_written : options.ranks) {
      std::vector<std::string> overrides = request.overrides;
      if (ranks > 0) overrides.push_back(fmt::format("world.size={}", ranks));
      PlannedFile plan =
          plan_file(file, {overrides, request.plugin_paths, request.output, 0}, cache);
      if (!plan.error.empty()) {
        std::cerr << "error: " << plan.error << "\n";
        return kExitUsage;
      }
      for (AccountLine& line : lines_of(plan, options)) lines.push_back(std::move(line));
      std::ranges::move(plan.runs, std::back_inserter(runs));
    }
  }
  // Behind all that is predicted in child processes, as this process has threads from here on.
  MachineRates rates;
  for (std::size_t i = 0; i < lines.size() && options.links; ++i) {
    RankSpeed& speed = lines[i].speed.emplace();
    if (options.operations_per_s) {
      speed.operations_per_s = *options.operations_per_s;
      if (options.bytes_per_s) speed.bytes_per_s = *options.bytes_per_s;
    } else {
      speed = rates.of(runs[i], lines[i].account, options);
    }
    speed.links = *options.links;
  }
  std::cout << account_output(lines, request.format, table_terminal(request.columns));
  return kExitDone;
}

}  // namespace ddprun
