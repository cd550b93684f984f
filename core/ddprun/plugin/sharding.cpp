// Exchanges of slices: when they are done, and what they issue.
#include "ddprun/plugin/sharding.h"

#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/optim/parameter_reads.h"

namespace ddprun {

void plan_reduce_scatter(Plan& plan, const ParameterLayout& layout, Range range, PlannedIn in) {
  plan.add(CollectiveKind::reduce_scatter, layout.gradient_bytes(range), in);
}

void plan_gather(Plan& plan, const ParameterLayout& layout, Range range, PlannedIn in) {
  if (layout.reads().only_float32(range)) {
    return plan.add(CollectiveKind::all_gather, bytes_of(range.size(), layout.dtypes().parameters),
                    in);
  }
  plan.add(CollectiveKind::all_gather, bytes_of(range.size(), layout.dtypes().compute), in);
  std::int64_t in_float32 = 0;
  for (const int index : layout.reads().in_float32(range)) in_float32 += layout.range(index).size();
  if (in_float32 == 0 || plan.holding.replicate_norms) return;
  plan.add(CollectiveKind::all_reduce, bytes_of(in_float32, layout.dtypes().parameters), in);
}

void plan_gather_norms(Plan& plan, const ParameterLayout& layout, PlannedIn in) {
  const std::int64_t elements = elements_of(beside_copy(layout));
  plan.add(CollectiveKind::all_reduce, bytes_of(elements, layout.dtypes().parameters), in);
}

void plan_mean_all_reduce(Plan& plan, const ParameterLayout& layout, Range range, PlannedIn in) {
  plan.add(CollectiveKind::all_reduce, bytes_of(range.size(), layout.dtypes().parameters), in);
}

void plan_broadcast(Plan& plan, const ParameterLayout& layout, int index, PlannedIn in) {
  const BufferDtypes& dtypes = layout.dtypes();
  const auto sent = layout.reads().copy_alone(index) ? dtypes.compute : dtypes.parameters;
  plan.add(CollectiveKind::broadcast, bytes_of(layout.range(index).size(), sent), in);
}

void Transfer::wait() {
  for (Work& work : works_) work.wait();
  works_.clear();
  if (then_) std::exchange(then_, {})();
}

}  // namespace ddprun
