// What the kind asks of plugin and machine, and what its rank does.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ddprun/base/machine_memory.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/registry.h"
#include "ddprun/device/device_library.h"
#include "ddprun/experiments/attention/attention_kind.h"
#include "ddprun/plugin/ask_plugin.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/called.h"
#include "ddprun/proof/attention/attention_config.h"
#include "ddprun/rank/connected_rank.h"

namespace ddprun {

namespace {

/// Of a GPU that the plugin is not asked about yet: above all that there are.
constexpr int kAnyCapability = std::numeric_limits<int>::max();

RunDescription describe(const Experiment& experiment, int compute_capability) {
  const auto& call = experiment.as<AttentionConfig>();
  const AttentionSizes sizes = call.sizes();
  return {.world_size = 1,
          .device = experiment.world.device,
          .compute_capability = experiment.world.device == DeviceKind::cpu ? 0 : compute_capability,
          .backend = experiment.world.comm.backend,
          .micro_batch = sizes.batch,
          .context_length = std::max(sizes.queries, sizes.keys),
          .heads = sizes.heads,
          .head_dim = sizes.head_dim,
          .dtypes = {.compute = scalar_type(call.dtype)}};
}

/// What the attention says of its memory.
std::optional<AttentionMemory> memory_of(const AttentionConfig& call, const Attention& attention) {
  return called(attention, "memory()", [&] { return attention.memory(call.sizes()); });
}

void check_memory(const Experiment& experiment, const Attention& attention) {
  if (!experiment.world.memory_check) return;
  const auto& call = experiment.as<AttentionConfig>();
  const double needed = attention_account(call, memory_of(call, attention)).peak();
  const double limit = experiment.world.memory_limit_gb * 1e9;
  refuse_above(
      experiment, "attention_call",
      {.each = limit > 0 ? std::min(needed, limit) : needed,
       .of = "at its peak, by the attention's formula"},
      static_cast<double>(available_memory()),
      {.what = fmt::format("attention \"{}\" would take more than this machine's free memory",
                           experiment.plugins.front().name),
       .hint = "a shorter length, another attention, or world.memory_limit_gb, under which "
               "it runs until its memory ends"});
}

class MeasuredAttention final : public AttentionKind {
 public:
  MeasuredAttention()
      : AttentionKind(
            {.own = AttentionConfig(),
             .sections = {world_section(),
                          own_section<AttentionConfig>("attention_call",
                                                       "the sizes of attention that is measured"),
                          repeat_section(), output_section()},
             .plugins = {PluginKind::attention}}) {}

  void check(const Experiment& experiment) const override {
    refuse_several_ranks(experiment, {.what = "experiment attention measures one rank",
                                      .hint = "attention does not communicate: remove it"});
  }

  void check_plugins(const Experiment& experiment, const PluginRegistry& registry) const override {
    const PluginChoice& choice = experiment.plugins.front();
    ask_plugin(*make_attention(registry, choice), describe(experiment, kAnyCapability),
               choice.options.origin);
  }

  std::optional<Account> check_machine(const Experiment& experiment, const PluginRegistry& registry,
                                       std::int64_t /*local_ranks*/) const override {
    const PluginChoice& choice = experiment.plugins.front();
    const auto attention = make_attention(registry, choice);
    const DeviceKind device = experiment.world.device;
    if (device == DeviceKind::cpu) {
      check_memory(experiment, *attention);
    } else {
      ask_plugin(*attention, describe(experiment, compute_capability(device)),
                 choice.options.origin);
    }
    return {};
  }

  nlohmann::json work(const Experiment& experiment, const PluginRegistry& registry) const override {
    return attention_work(experiment.as<AttentionConfig>(),
                          *make_attention(registry, experiment.plugins.front()));
  }

  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context) const override {
    const auto& call = experiment.as<AttentionConfig>();
    ConnectedRank rank(experiment, context);
    rank.connect();
    rank.result().matmul_dtype = name_of(call.dtype);
    {
      const PluginChoice& choice = experiment.plugins.front();
      const auto attention = make_attention(registry, choice);
      measure_attention(
          call, experiment.repeat, *attention, rank.group(),
          [&](const Sample& sample) { rank.sample_done(sample); }, rank.result());
    }
    return rank.finish();
  }
};

}  // namespace

nlohmann::json attention_work(const AttentionConfig& call, const Attention& attention) {
  const AttentionKind& q = attention_kind();
  const auto own = memory_of(call, attention);
  const AttentionAccount account = attention_account(call, own);
  nlohmann::json out = {{"flops", attention_flops(call)},
                        {q.inputs_bytes.of_work, account.inputs},
                        {q.output_bytes.of_work, account.output}};
  if (!own) return out;
  out[q.scores_bytes.of_work] = account.scores;
  out[q.before_backward_formula_bytes.of_work] = account.before_backward();
  out[q.peak_formula_bytes.of_work] = account.peak();
  if (!call.backward()) return out;
  out[q.saved_bytes.of_work] = account.saved;
  out[q.backward_bytes.of_work] = account.backward;
  return out;
}

const AttentionKind& attention_kind() {
  static const MeasuredAttention kind;
  return kind;
}

}  // namespace ddprun
