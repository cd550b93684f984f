// Asks the plugins before the first of them acts, and holds plans against each other.
#include "ddprun/train/asked_plugins.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/choice.h"
#include "ddprun/device/device.h"
#include "ddprun/device/device_library.h"

namespace ddprun {

namespace {

/// The parameters after the precision has converted them. What FlatBuffers refuses stays as it is.
const std::vector<NamedTensor>& converted(const std::vector<NamedTensor>& parameters,
                                          Precision& precision) {
  const bool all_there =
      std::all_of(parameters.begin(), parameters.end(),
                  [](const NamedTensor& parameter) { return parameter.tensor.defined(); });
  if (all_there && !parameters.empty()) precision.convert(parameters);
  return parameters;
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

Plan checked_plan(const Strategy& strategy, const ParameterLayout& layout, int rank) {
  Plan plan = strategy.plan(layout, rank);
  if (plan.holding.owned.empty()) return plan;
  std::vector<Range> all;
  for (int each = 0; each < layout.ranks(); ++each) {
    const auto owned = strategy.plan(layout, each).holding.owned;
    all.insert(all.end(), owned.begin(), owned.end());
  }
  const auto by_begin = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  std::sort(plan.holding.owned.begin(), plan.holding.owned.end(), by_begin);
  std::sort(all.begin(), all.end(), by_begin);
  std::int64_t end = 0;
  for (const Range& range : all) {
    if (range.begin != end) break;
    end = range.end;
  }
  if (end == layout.all().end) return plan;
  throw Error(
      {.what = "the ranks' plans do not own each element once",
       .where = "the strategy's plan()",
       .got = fmt::format("element {} of {} owned by none or by two", end, layout.all().end),
       .expected = "owned ranges that make up the whole buffer",
       .hint = "ParameterLayout::slice() cuts whole units into equal parts"});
}

}  // namespace

RunDescription describe(const ProcessGroup& group, const Precision& precision,
                        const OptimizerConfig& optimizer, KernelSet kernels) {
  RunDescription run;
  run.world_size = group.size();
  run.device = group.device().torch_device().is_cpu() ? DeviceKind::cpu : DeviceKind::cuda;
  run.compute_capability = compute_capability(run.device);
  run.compute_dtype = precision.compute_dtype();
  run.scales_loss = precision.scales_loss();
  run.optimizer = optimizer;
  run.kernels = kernels;
  return run;
}

const std::vector<NamedTensor>& prepared(const std::vector<NamedTensor>& parameters,
                                         const Strategy& strategy, Precision& precision,
                                         const RunDescription& run) {
  check_supported(precision, "precision", run);
  check_supported(strategy, "strategy", run);
  return converted(parameters, precision);
}

BufferDtypes dtypes_of(const Precision& precision) {
  return {.compute = precision.compute_dtype(),
          .reduce = precision.reduce_dtype(),
          .model = precision.parameter_dtype(),
          .parameters = precision.updated_dtype(),
          .moments = precision.moments_dtype()};
}

BufferHolding holding_of(const Strategy& strategy, const ParameterLayout& layout, int rank,
                         StepExtent extent) {
  if (extent == StepExtent::forward) return {.gradients = Held::nothing};
  return checked_plan(strategy, layout, rank).holding;
}

}  // namespace ddprun
