// The trainer on device meta, what its allocator counted in each phase, and that against the
// machine, where a rough bound does not settle it.
#include "ddprun/experiments/training/dry_step.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "ddprun/base/child_process.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/base/json.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/dry/dry_device.h"
#include "ddprun/dry/dry_phases.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/measure/phase.h"
#include "ddprun/memory/dry_memory.h"

namespace ddprun {

namespace {

constexpr double kLimitS = 20;
/// More would take minutes and gigabytes: of layers, and of a micro-batch's tokens, which are real.
constexpr std::int64_t kMostLayers = 4096, kMostTokens = std::int64_t{1} << 24;
/// Steps after which nothing new is made: the first makes the moments, and PyTorch's Reducer cuts
/// its buckets anew in the second.
constexpr std::int64_t kSettled = 3;

/// Those that are alike as one. `begin`: the work before the step.
std::vector<CollectiveAccount> alike(const std::vector<CollectiveRecord>& records,
                                     const DryDevice& device, const ComputeWork& begin) {
  const ComputeWork all = device.work() - begin;
  const auto done_at = [&](Mark mark) { return device.work_at(mark) - begin; };
  std::vector<CollectiveAccount> out;
  for (const CollectiveRecord& each : records) {
    // Code that waits for futures alone (c10d's Reducer) waits within the step.
    const CollectiveAccount one{
        .kind = each.kind,
        .bytes = each.bytes,
        .ranks = each.ranks,
        .ranks_per_host = each.ranks_per_host,
        .count = 1,
        .enqueued = done_at(each.enqueue_ns),
        .awaited = each.wait_begin_ns == 0 ? all : done_at(each.wait_begin_ns)};
    if (!out.empty() && out.back().like(one)) {
      ++out.back().count;
    } else {
      out.push_back(one);
    }
  }
  return out;
}

/// The lowest of the ranks that own most, by their plans.
int rank_that_holds_most(Trainer& trainer, int ranks) {
  std::int64_t most = 0;
  int rank = 0;
  for (int each = 0; each < ranks; ++each) {
    std::int64_t owned = 0;
    for (const Range& range : trainer.data_parallel().owned_by(each)) owned += range.size();
    if (owned > most) rank = each;
    most = std::max(most, owned);
  }
  return rank;
}

RunPlugins dry_plugins(const Experiment& experiment, const PluginRegistry& registry) {
  RunPlugins plugins = make_plugins(registry, experiment);
  if (!plugins.attention->takes_meta()) {
    plugins.attention = dry_attention(plugins.attention);
  }
  return plugins;
}

/// Of what a plugin threw, what it said.
std::string reason_of(const std::exception& failure) {
  const auto* const error = dynamic_cast<const Error*>(&failure);
  const std::string text =
      error == nullptr ? message_of(failure) : error->text().what + ": " + error->text().got;
  return text.substr(0, text.find('\n'));
}

/// In the child.
Account account_of_rank(const Experiment& experiment, const PluginRegistry& registry, int rank,
                        int ranks_per_host) {
  const auto ranks = static_cast<int>(experiment.world.size);
  const std::int64_t observed =
      std::min(observed_step(training(experiment)).value_or(kSettled - 1), kSettled - 1);
  at::set_num_threads(1);  // none that this process would have to start
  const auto operators = dry_operators();
  DryDevice device;
  const DryMemory memory;
  DryPhases phases(memory);
  const PhaseSubscription subscription(phases);
  const bool on_cpu = experiment.world.device == DeviceKind::cpu;
  const BackendKind backend = on_cpu ? experiment.world.comm.backend : BackendKind::nccl;
  const auto group = group_of_absent_peers(rank, ranks, ranks_per_host, backend, device);
  std::optional<PhaseScope> setup(std::in_place, Phase::setup);
  Trainer trainer(experiment, dry_plugins(experiment, registry), *group);
  setup.reset();
  if (const int most = rank_that_holds_most(trainer, ranks); most > rank) {
    return {.rank = most, .unknown = "another rank holds more"};
  }
  for (std::int64_t step = 0; step < observed; ++step) trainer.untimed_step(step);
  group->take_records();
  phases.watch();
  const ComputeWork before = device.work();
  trainer.untimed_step(observed);
  return {.ranks = ranks,
          .rank = rank,
          .phases = phases.peaks(),
          .collectives = alike(group->take_records(), device, before),
          .work = device.work() - before,
          .products = trainer.plugins().precision->dtypes().product_format(),
          .tokens = batch_per_rank(experiment) * training(experiment).model.context_length};
}

Account not_known(const Experiment& experiment, std::string why) {
  return {.ranks = static_cast<int>(experiment.world.size), .unknown = std::move(why)};
}

/// In the child: of the rank that holds most.
Account account_of_most(const Experiment& experiment, const PluginRegistry& registry,
                        int ranks_per_host) {
  if (const std::int64_t layers = training(experiment).model.layers; layers > kMostLayers) {
    return not_known(
        experiment,
        fmt::format("a step without memory takes {} layers at most, not {}", kMostLayers, layers));
  }
  const std::int64_t tokens = micro_batch(experiment) * training(experiment).model.context_length;
  if (tokens > kMostTokens) {
    return not_known(
        experiment,
        fmt::format("a step without memory takes {} tokens at most, not {}", kMostTokens, tokens));
  }
  if (ranks_per_host == 0) ranks_per_host = static_cast<int>(experiment.world.size);
  try {
    int rank = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
      Account account = account_of_rank(experiment, registry, rank, ranks_per_host);
      if (account.rank <= rank) return account;
      rank = account.rank;
    }
    return not_known(experiment, "no rank holds most");
  } catch (const std::exception& error) {
    return not_known(experiment, reason_of(error));
  }
}

/// Of a rank beside its tensors, as measured (docs/performance.md, "Many ranks"): always, and as
/// much as its tensors up to some size.
constexpr double kFixedBytes = 12e6;
constexpr double kMostAsTensors = 65e6;

/// More than a step takes, in bytes a rank: ten values of four bytes for a parameter, and for a
/// token of a micro-batch twice what PyTorch's operators keep of a block, scores of a whole
/// attention matrix included, and of the head. So a file of a thousand small runs needs no thousand
/// dry steps.
double rough_bound(const Experiment& experiment) {
  const TrainingConfig& config = training(experiment);
  const ModelConfig& m = config.model;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double of_block = 48 * number(m.d_model) + 16 * number(m.d_ff) +
                          12 * number(m.heads) * number(m.context_length);
  const double of_token = number(m.layers) * of_block + 8 * number(m.vocab_size);
  const double tokens = number(micro_batch(experiment)) * number(m.context_length);
  return 40 * number(m.parameter_count()) + 8 * tokens * of_token;
}

/// Read at most ten times a second: hundreds of rows of a sweep are planned at once.
std::int64_t recently_available() {
  constexpr std::int64_t kRecentNs = 100'000'000;
  static std::int64_t bytes = 0, read_ns = 0;
  if (read_ns == 0 || now_ns() - read_ns > kRecentNs) {
    bytes = available_memory();
    read_ns = now_ns();
  }
  return bytes;
}

}  // namespace

std::optional<std::int64_t> observed_step(const TrainingConfig& config, std::int64_t first) {
  const std::int64_t warmup = steps_from(first, config.train).measured - first;
  if (warmup == 0) return {};
  const bool captured = config.execution.mode == ExecutionMode::cuda_graph;
  return first + (captured ? std::min(warmup, ExecutionConfig::kEagerSteps) : warmup) - 1;
}

Account dry_step(const Experiment& experiment, const PluginRegistry& registry, int ranks_per_host) {
  const Experiment* const one = &experiment;
  return dry_steps({&one, 1}, registry, ranks_per_host).front();
}

std::vector<Account> dry_steps(std::span<const Experiment* const> experiments,
                               const PluginRegistry& registry, int ranks_per_host) {
  std::vector<Account> accounts;
  while (accounts.size() < experiments.size()) {
    const auto left = experiments.subspan(accounts.size());
    const ChildReport report = run_in_child(
        [&](int fd) {
          ::unsetenv("NVTX_INJECTION64_PATH");  // no profiler takes it for a rank
          for (const Experiment* each : left) {
            const Account account = account_of_most(*each, registry, ranks_per_host);
            write_all(fd, json_text(to_json(account)) + "\n");
          }
        },
        kLimitS);
    std::istringstream lines(report.text.substr(0, report.text.rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      accounts.push_back(account_from_json(parse_json(line)));
    }
    if (accounts.size() == experiments.size()) break;
    accounts.push_back(
        not_known(*experiments[accounts.size()], "a step without memory was " + report.death));
  }
  return accounts;
}

double rank_bytes(double tensors) {
  return kFixedBytes + tensors + std::min(tensors, kMostAsTensors);
}

std::optional<Account> check_memory(const Experiment& experiment, const PluginRegistry& registry,
                                    std::int64_t local_ranks, std::int64_t available) {
  if (!experiment.world.memory_check || experiment.world.memory_limit_gb > 0) return {};
  const auto there = static_cast<double>(available);
  if (static_cast<double>(local_ranks) * rank_bytes(rough_bound(experiment)) <= there) return {};
  Account account = dry_step(experiment, registry);
  if (const PhaseAccount* const peak = account.peak()) {
    const double each = rank_bytes(static_cast<double>(peak->at_peak.sum()));
    refuse_above(
        experiment, "world.memory_check", {local_ranks, each, "at the peak of " + peak->phase},
        there,
        {.what = "the ranks would take more memory than this machine has",
         .hint = "`ddprun account` says what takes it; fewer ranks, a smaller batch, "
                 "model.recompute or another strategy take less; world.memory_check: false runs it "
                 "all the same"});
  }
  return account;
}

std::optional<Account> check_memory(const Experiment& experiment, const PluginRegistry& registry,
                                    std::int64_t local_ranks) {
  return check_memory(experiment, registry, local_ranks, recently_available());
}

}  // namespace ddprun
