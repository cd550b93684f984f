// Exchanges of slices: when they are done, and what they issue.
#include "ddprun/plugin/sharding.h"

#include "ddprun/optim/flat_parts.h"

namespace ddprun {

void plan_reduce_scatter(Plan& plan, const ParameterLayout& layout, Range range, PlannedIn in) {
  plan.add(CollectiveKind::reduce_scatter, layout.gradient_bytes(range), in);
}

void plan_gather(Plan& plan, const ParameterLayout& layout, Range range, PlannedIn in) {
  plan.add(CollectiveKind::all_gather, bytes_of(range.size(), gather_dtype(layout, range)), in);
}

void plan_gather_norms(Plan& plan, const ParameterLayout& layout) {
  const std::int64_t elements = norm_elements(layout);
  if (elements == 0) return;
  plan.add(CollectiveKind::all_reduce, bytes_of(elements, at::kFloat), PlannedIn::update);
}

void plan_broadcast(Plan& plan, const ParameterLayout& layout, int index) {
  const std::int64_t bytes = bytes_of(layout.range(index).size(), read_dtype(layout, index));
  plan.add(CollectiveKind::broadcast, bytes, PlannedIn::update);
}

void Transfer::wait() {
  std::exchange(work_, {}).wait();
  if (then_) std::exchange(then_, {})();
}

}  // namespace ddprun
