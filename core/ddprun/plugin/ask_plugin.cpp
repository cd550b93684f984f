// A plugin's refusal as an error of the configuration.
#include "ddprun/plugin/ask_plugin.h"

#include <fmt/format.h>

#include "ddprun/base/choice.h"
#include "ddprun/base/text.h"
#include "ddprun/plugin/called.h"

namespace ddprun {

namespace {

std::string text_of(const RunDescription& run) {
  std::string text =
      fmt::format("{} on {} with {}, {} kernels, products in {}", counted(run.world_size, "rank"),
                  name_of(run.device), name_of(run.backend), name_of(run.kernels),
                  PrecisionDtypes{.buffers = run.dtypes}.product_format());
  if (run.heads == 0) return text;  // a model of one's own
  return text + fmt::format(", {} of {}, context {}, {} in a micro-batch",
                            counted(run.heads, "head"), run.head_dim, run.context_length,
                            counted(run.micro_batch, "sequence"));
}

}  // namespace

PluginRefusal::~PluginRefusal() = default;

RunDescription described_with(RunDescription run, Precision& precision) {
  run.dtypes = called(precision, "dtypes()", [&] { return precision.dtypes(); }).buffers;
  run.scales_loss = precision.loss_scaler() != nullptr;
  return run;
}

Plan ask_plan(const Strategy& strategy, const ParameterLayout& layout, int rank) {
  return called(strategy, "plan()", [&] { return strategy.plan(layout, rank); });
}

void ask_plugin(const Plugin& plugin, const RunDescription& run, const std::string& where) {
  const auto refusal = called(plugin, "unsupported()", [&] { return plugin.unsupported(run); });
  if (!refusal) return;
  const std::string name = plugin.called.empty() ? "a plugin" : plugin.called;
  throw PluginRefusal(
      {.what = name + " cannot run in this experiment: " + refusal->reason,
       .where = where,
       .got = text_of(run),
       .expected = refusal->expected,
       .hint = refusal->hint.empty() ? "take another: `ddprun list` shows them" : refusal->hint});
}

}  // namespace ddprun
