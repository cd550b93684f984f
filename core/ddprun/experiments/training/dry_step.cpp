// The trainer on device meta, and what its allocator counted in each phase.
#include "ddprun/experiments/training/dry_step.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "ddprun/base/child_process.h"
#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/base/json.h"
#include "ddprun/comm/group/absent_peers.h"
#include "ddprun/device/device.h"
#include "ddprun/experiments/training/dry_attention.h"
#include "ddprun/experiments/training/dry_operators.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/measure/phase.h"
#include "ddprun/memory/dry_memory.h"

namespace ddprun {

namespace {

constexpr double kLimitS = 20;
/// More would take minutes and gigabytes, without values too: of layers, and of a micro-batch's
/// tokens, whose ids are real.
constexpr std::int64_t kMostLayers = 4096, kMostTokens = std::int64_t{1} << 24;
/// Steps after which nothing new is made: the first makes the moments, and PyTorch's Reducer cuts
/// its buckets anew in the second.
constexpr std::int64_t kSettled = 3;

/// Device meta, whose marks are numbers.
class DryDevice final : public Device {
 public:
  c10::Device torch_device() const override { return c10::kMeta; }
  Mark mark() override { return ++mark_; }
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronize() override {}
  std::unique_ptr<CapturedWork> capture(const std::function<void()>&) override { return nullptr; }
  bool capturing() const override { return false; }
  DeviceMemory memory() const override { return {}; }
  void reset_memory() override {}
  std::vector<std::pair<std::string, std::string>> describe() const override { return {}; }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                 std::chrono::milliseconds) override {
    return {};
  }

 private:
  Mark mark_ = 0;
};

/// Notes between which changes of memory phases lay.
class PhaseSpans final : public PhaseListener {
 public:
  struct Span {
    Phase phase;
    std::size_t begin = 0, end = 0;
  };

  explicit PhaseSpans(const DryMemory& memory) : memory_(memory) {}

  void watch(bool watched) { watched_ = watched; }
  void begin(Phase phase) override {
    if (phase != Phase::step) open_.push_back({phase, memory_.changes().size(), 0});
  }
  void end(Phase phase) override {
    if (phase == Phase::step) return;
    Span span = open_.back();
    open_.pop_back();
    span.end = memory_.changes().size();
    all_.push_back(span);
    if (watched_ || phase == Phase::setup) watched_spans_.push_back(span);
  }

  /// Those of set-up and of the watched step.
  const std::vector<Span>& watched() const { return watched_spans_; }
  /// The one that a change lay in; null: none.
  const Span* at(std::size_t change) const {
    const auto after = std::ranges::upper_bound(all_, change, {}, &Span::end);
    return after == all_.end() || change < after->begin ? nullptr : &*after;
  }

 private:
  const DryMemory& memory_;
  bool watched_ = false;
  std::vector<Span> open_, all_, watched_spans_;
};

/// What a block without a scope is for: the phase that made it says so, and whether it outlived it.
MemoryCategory category_of(const DryMemory::Block& block, const PhaseSpans& spans) {
  if (block.category) return *block.category;
  const PhaseSpans::Span* const span = spans.at(block.made);
  if (span == nullptr) return MemoryCategory::data;  // the step's inputs
  switch (span->phase) {
    case Phase::forward: {
      const bool stays = !block.gone || *block.gone >= span->end;
      return stays ? MemoryCategory::saved : MemoryCategory::forward;
    }
    case Phase::backward:
    case Phase::synchronize:
      return MemoryCategory::backward;
    case Phase::setup:
    case Phase::step:
    case Phase::optimizer:
      break;
  }
  return MemoryCategory::workspace;
}

/// The peak of each phase, at the moment of the highest one if it came several times.
std::vector<PhaseAccount> peaks_of(const DryMemory& memory, const PhaseSpans& spans) {
  std::vector<PhaseAccount> peaks;
  MemoryBytes now;
  std::size_t next = 0;
  const auto account = [&peaks](Phase phase) -> PhaseAccount& {
    const auto known =
        std::ranges::find(peaks, std::string(to_string(phase)), &PhaseAccount::phase);
    if (known != peaks.end()) return *known;
    return peaks.emplace_back(PhaseAccount{to_string(phase), {}});
  };
  const auto advance = [&] {
    const DryMemory::Change& change = memory.changes()[next++];
    const DryMemory::Block& block = memory.blocks()[change.block];
    now[category_of(block, spans)] += change.came ? block.bytes : -block.bytes;
  };
  for (const PhaseSpans::Span& span : spans.watched()) {
    while (next < span.begin) advance();
    MemoryBytes& peak = account(span.phase).at_peak;
    if (now.sum() > peak.sum()) peak = now;
    while (next < span.end) {
      advance();
      if (now.sum() > peak.sum()) peak = now;
    }
  }
  return peaks;
}

std::vector<CollectiveAccount> alike(const std::vector<CollectiveRecord>& records) {
  std::map<std::tuple<CollectiveKind, std::int64_t, int>, std::int64_t> counts;
  for (const CollectiveRecord& each : records) ++counts[{each.kind, each.bytes, each.ranks}];
  std::vector<CollectiveAccount> out;
  for (const auto& [what, count] : counts) {
    out.push_back({std::get<0>(what), std::get<1>(what), std::get<2>(what), count});
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
    plugins.attention = std::make_shared<DryAttention>(plugins.attention);
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
  PhaseSpans spans(memory);
  const PhaseSubscription subscription(spans);
  const auto group = group_of_absent_peers(rank, ranks, ranks_per_host, device);
  std::optional<PhaseScope> setup(std::in_place, Phase::setup);
  Trainer trainer(experiment, dry_plugins(experiment, registry), *group);
  setup.reset();
  if (const int most = rank_that_holds_most(trainer, ranks); most > rank) {
    return {.rank = most, .unknown = "another rank holds more"};
  }
  for (std::int64_t step = 0; step <= observed; ++step) {
    group->take_records();
    spans.watch(step == observed);
    trainer.untimed_step(step);
  }
  return {.ranks = ranks,
          .rank = rank,
          .phases = peaks_of(memory, spans),
          .collectives = alike(group->take_records())};
}

}  // namespace

std::optional<std::int64_t> observed_step(const TrainingConfig& config) {
  const std::int64_t warmup = config.train.warmup_steps;
  if (warmup == 0) return {};
  if (config.execution.mode == ExecutionMode::cuda_graph) {
    return std::min(warmup, ExecutionConfig::kEagerSteps) - 1;
  }
  return warmup - 1;
}

Account dry_step(const Experiment& experiment, const PluginRegistry& registry, int ranks_per_host) {
  if (ranks_per_host == 0) ranks_per_host = static_cast<int>(experiment.world.size);
  if (const std::int64_t layers = training(experiment).model.layers; layers > kMostLayers) {
    return {.ranks = static_cast<int>(experiment.world.size),
            .unknown = fmt::format("a step without memory takes {} layers at most, not {}",
                                   kMostLayers, layers)};
  }
  const std::int64_t tokens = micro_batch(experiment) * training(experiment).model.context_length;
  if (tokens > kMostTokens) {
    return {.ranks = static_cast<int>(experiment.world.size),
            .unknown = fmt::format("a step without memory takes {} tokens at most, not {}",
                                   kMostTokens, tokens)};
  }
  int rank = 0;
  const auto body = [&](int fd) {
    ::unsetenv("NVTX_INJECTION64_PATH");  // no profiler takes it for a rank
    try {
      Account account = account_of_rank(experiment, registry, rank, ranks_per_host);
      write_all(fd, json_text(to_json(account)));
    } catch (const std::exception& error) {
      Account account{.unknown = reason_of(error)};
      write_all(fd, json_text(to_json(account)));
    }
  };
  for (int attempt = 0; attempt < 2; ++attempt) {
    const ChildReport report = run_in_child(body, kLimitS);
    if (!report.death.empty()) {
      return {.ranks = static_cast<int>(experiment.world.size),
              .rank = rank,
              .unknown = "a step without memory was " + report.death};
    }
    Account account = account_from_json(nlohmann::json::parse(report.text));
    if (account.rank <= rank) return account;
    rank = account.rank;
  }
  return {.ranks = static_cast<int>(experiment.world.size), .unknown = "no rank holds most"};
}

}  // namespace ddprun
