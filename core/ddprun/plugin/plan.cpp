// The collectives of exchanges that several strategies make.
#include "ddprun/plugin/plan.h"

#include "ddprun/optim/flat_parts.h"

namespace ddprun {

void Plan::add_reduce_scatter(const ParameterLayout& layout, Range range, PlannedIn in) {
  add(CollectiveKind::reduce_scatter, layout.gradient_bytes(range), in);
}

void Plan::add_gather(const ParameterLayout& layout, Range range, PlannedIn in) {
  if (layout.only_float32(range)) {
    return add(CollectiveKind::all_gather, bytes_of(range.size(), layout.dtypes().parameters), in);
  }
  add(CollectiveKind::all_gather, bytes_of(range.size(), layout.dtypes().compute), in);
  std::int64_t in_float32 = 0;
  for (const int index : layout.read_in_float32(range)) in_float32 += layout.range(index).size();
  if (in_float32 == 0) return;
  add(CollectiveKind::all_reduce, bytes_of(in_float32, layout.dtypes().parameters), in);
}

void Plan::add_mean_all_reduce(const ParameterLayout& layout, Range range, PlannedIn in) {
  add(CollectiveKind::all_reduce, bytes_of(range.size(), layout.dtypes().parameters), in);
}

void Plan::add_broadcast(const ParameterLayout& layout, int index, PlannedIn in) {
  const BufferDtypes& dtypes = layout.dtypes();
  const auto sent = layout.reads_copy_alone(index) ? dtypes.compute : dtypes.parameters;
  add(CollectiveKind::broadcast, bytes_of(layout.range(index).size(), sent), in);
}

}  // namespace ddprun
