// What the kind asks of plugin and machine, and what its rank does.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ddprun/base/error.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/registry.h"
#include "ddprun/device/device_library.h"
#include "ddprun/experiments/attention/attention_kind.h"
#include "ddprun/experiments/attention/attention_work.h"
#include "ddprun/experiments/attention/measure_attention.h"
#include "ddprun/measure/environment.h"
#include "ddprun/plugin/ask_plugin.h"
#include "ddprun/plugin/called.h"
#include "ddprun/rank/connected_rank.h"

namespace ddprun {

namespace {

/// Of a GPU that the plugin is not asked about yet: above all that there are.
constexpr int kAnyCapability = std::numeric_limits<int>::max();

RunDescription describe(const Experiment& experiment, int compute_capability) {
  const AttentionSizes sizes = experiment.attention_call.sizes();
  return {.world_size = 1,
          .device = experiment.world.device,
          .compute_capability = experiment.world.device == DeviceKind::cpu ? 0 : compute_capability,
          .backend = experiment.world.comm.backend,
          .micro_batch = sizes.batch,
          .context_length = std::max(sizes.queries, sizes.keys),
          .heads = sizes.heads,
          .head_dim = sizes.head_dim,
          .compute_dtype = scalar_type(experiment.attention_call.dtype)};
}

void check_memory(const Experiment& experiment, const Attention& attention) {
  const AttentionConfig& call = experiment.attention_call;
  const double needed =
      attention_account(
          call, called(attention, "memory()", [&] { return attention.memory(call.sizes()); }))
          .peak();
  const double limit = experiment.world.memory_limit_gb * 1e9;
  const double taken = limit > 0 ? std::min(needed, limit) : needed;
  const auto available = static_cast<double>(proc_bytes("/proc/meminfo", "MemAvailable"));
  if (taken <= available) return;
  throw ConfigError(
      {.what = fmt::format("attention \"{}\" would take more than this machine's free memory",
                           experiment.attention.name),
       .where = origin_of(experiment.document, "attention_call"),
       .got = fmt::format("{:.1f} GB at its peak, by its formula", needed * 1e-9),
       .expected = fmt::format("at most {:.1f} GB", available * 1e-9),
       .hint = "a shorter length, another attention, or world.memory_limit_gb, under which it runs "
               "until its memory ends"});
}

}  // namespace

const KindKeys& AttentionKind::keys() const {
  static const KindKeys keys = {.sections = {"world", "attention_call", "repeat", "output"},
                                .required = {"attention_call"},
                                .plugins = {PluginKind::attention}};
  return keys;
}

void AttentionKind::check(const Experiment& experiment) const {
  refuse_several_ranks(experiment, {.what = "experiment attention measures one rank",
                                    .hint = "attention does not communicate: remove it"});
}

void AttentionKind::check_plugins(const Experiment& experiment,
                                  const PluginRegistry& registry) const {
  const auto attention = make_attention(registry, experiment.attention);
  ask_plugin(*attention, describe(experiment, kAnyCapability), experiment.attention.options.origin);
}

void AttentionKind::check_machine(const Experiment& experiment, const PluginRegistry& registry,
                                  std::int64_t /*local_ranks*/) const {
  const auto attention = make_attention(registry, experiment.attention);
  const DeviceKind device = experiment.world.device;
  if (device == DeviceKind::cpu) return check_memory(experiment, *attention);
  ask_plugin(*attention, describe(experiment, compute_capability(device)),
             experiment.attention.options.origin);
}

nlohmann::json AttentionKind::work(const Experiment& experiment) const {
  return {{"flops", attention_flops(experiment.attention_call)}};
}

std::vector<RankResult> AttentionKind::run_rank(const Experiment& experiment,
                                                const PluginRegistry& registry,
                                                const RunContext& context) const {
  ConnectedRank rank(experiment, context);
  rank.connect();
  rank.result().matmul_dtype = name_of(experiment.attention_call.dtype);
  {
    const auto attention = make_attention(registry, experiment.attention);
    const RepeatConfig& repeat = experiment.repeat;
    const auto on_sample = [&](const Sample& sample) {
      if (sample.step == 0) rank.first_step_done();
      if (!context.on_progress) return;
      context.on_progress({sample.step + 1, repeat.warmup + repeat.count,
                           fmt::format("{:.2f} ms", sample[time_ms])});
    };
    measure_attention(experiment.attention_call, repeat, *attention, rank.group(), on_sample,
                      rank.result());
  }
  return rank.finish();
}

}  // namespace ddprun
