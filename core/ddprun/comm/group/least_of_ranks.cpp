// An all-reduce of the largest negative.
#include "ddprun/comm/group/all_gather_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>

#include "ddprun/device/device.h"

namespace ddprun {

std::vector<float> least_of_ranks(std::vector<float> values, ProcessGroup& group) {
  if (group.size() == 1 || values.empty()) return values;
  const at::Tensor mine = at::from_blob(values.data(), static_cast<std::int64_t>(values.size()));
  const at::Tensor shared = mine.neg().to(group.device().torch_device());
  group.all_reduce(shared, ReduceOp::max, "least of the ranks", Await::next).wait();
  mine.copy_(shared.neg());
  return values;
}

}  // namespace ddprun
