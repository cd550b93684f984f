// Asks the plugins before the first of them acts, and holds plans against each other.
#include "ddprun/train/asked_plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ddprun/base/choice.h"
#include "ddprun/device/device.h"
#include "ddprun/device/device_library.h"

namespace ddprun {

namespace {

/// Lets the precision convert all parameters. What FlatBuffers refuses stays as it is.
void convert(const ParameterRoles& roles, Precision& precision) {
  std::vector<NamedTensor> parameters = roles.trained;
  parameters.insert(parameters.end(), roles.frozen.begin(), roles.frozen.end());
  const bool all_there =
      std::all_of(parameters.begin(), parameters.end(),
                  [](const NamedTensor& parameter) { return parameter.tensor.defined(); });
  if (all_there && !parameters.empty()) precision.convert(parameters);
}

/// For programs of one's own: an experiment's plugins were asked before any rank started.
void check_supported(const Plugin& plugin, const char* kind, const RunDescription& run) {
  const auto refusal = plugin.unsupported(run);
  if (!refusal) return;
  throw ConfigError(
      {.what = fmt::format("the {} cannot run here: {}", kind, refusal->reason),
       .where = "DataParallel",
       .got = fmt::format("{} rank{} on {}", run.world_size, run.world_size == 1 ? "" : "s",
                          name_of(run.device)),
       .expected = refusal->expected,
       .hint = refusal->hint.empty() ? fmt::format("take another {}", kind) : refusal->hint});
}

[[noreturn]] void refuse_ownership(std::int64_t element, const ParameterLayout& layout) {
  throw Error(
      {.what = "the ranks' plans do not own each element once",
       .where = "the strategy's plan()",
       .got = fmt::format("element {} of {} owned by none or by two", element, layout.all().end),
       .expected = "owned ranges that make up the whole buffer",
       .hint = "ParameterLayout::slice() cuts whole units into equal parts; a rank that owns "
               "nothing names an empty range"});
}

bool by_begin(const Range& a, const Range& b) { return a.begin < b.begin; }

Plan checked_plan(const Strategy& strategy, const ParameterLayout& layout, int rank) {
  Plan plan = strategy.plan(layout, rank);
  std::sort(plan.holding.owned.begin(), plan.holding.owned.end(), by_begin);
  std::vector<Range> all;
  bool in_parts = false;
  for (int each = 0; each < layout.ranks(); ++each) {
    auto owned = strategy.plan(layout, each).holding.owned;
    in_parts = in_parts || !owned.empty();
    if (owned.empty()) owned.push_back(layout.all());
    std::copy_if(owned.begin(), owned.end(), std::back_inserter(all),
                 [](const Range& range) { return range.size() > 0; });
  }
  if (!in_parts) return plan;
  std::sort(all.begin(), all.end(), by_begin);
  all.push_back({layout.all().end, layout.all().end});  // up to here nothing may be missing
  std::int64_t end = 0;
  for (const Range& range : all) {
    if (range.begin != end) refuse_ownership(std::min(range.begin, end), layout);
    end = range.end;
  }
  return plan;
}

}  // namespace

RunDescription describe(const ProcessGroup& group, Precision& precision,
                        const OptimizerConfig& optimizer, KernelSet kernels) {
  RunDescription run;
  run.world_size = group.size();
  run.device = group.device().torch_device().is_cpu() ? DeviceKind::cpu : DeviceKind::cuda;
  run.compute_capability = compute_capability(run.device);
  run.compute_dtype = precision.dtypes().buffers.compute;
  run.scales_loss = precision.loss_scaler() != nullptr;
  run.optimizer = optimizer;
  run.kernels = kernels;
  return run;
}

const std::vector<NamedTensor>& prepared(const ParameterRoles& roles, const Strategy& strategy,
                                         Precision& precision, const RunDescription& run) {
  check_supported(precision, "precision", run);
  check_supported(strategy, "strategy", run);
  convert(roles, precision);
  return roles.trained;
}

BufferHolding holding_of(const Strategy& strategy, const ParameterLayout& layout, int rank,
                         StepExtent extent) {
  if (extent == StepExtent::forward) return {.gradients = Held::nothing};
  return checked_plan(strategy, layout, rank).holding;
}

}  // namespace ddprun
