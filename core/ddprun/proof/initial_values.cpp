// One broadcast of what was kept, and each rank looks at what it owns.
#include "ddprun/proof/initial_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/counter_hash.h"
#include "ddprun/parallel/first_of_all.h"
#include "ddprun/proof/drawn_run.h"

namespace ddprun {

InitialValues::InitialValues(const std::vector<NamedTensor>& parameters, std::uint64_t seed)
    : seed_(seed) {
  std::vector<at::Tensor> kept;
  std::int64_t begin = 0;
  for (const NamedTensor& each : parameters) {
    const Range run = drawn_run({0, each.tensor.numel()}, counter_hash(seed + 4, drawn_.size()));
    const at::Tensor flat = each.tensor.detach().as_strided({each.tensor.numel()}, {1});
    kept.push_back(flat.narrow(0, run.begin, run.size()).to(at::kFloat));
    drawn_.push_back({each.name, run, begin});
    begin += run.size();
  }
  kept_ = at::cat(kept);
}

std::string InitialValues::find_changed(const DataParallel& data_parallel,
                                        ProcessGroup& group) const {
  const at::Tensor kept = kept_.clone();
  group.broadcast(kept, 0, "initial values").wait();
  std::string own = find_changed(data_parallel.buffers(), kept);
  if (const FrozenParameters* const frozen = data_parallel.frozen(); frozen && own.empty()) {
    own = find_changed(frozen->buffers(), kept);
  }
  return first_of_all(group, own);
}

std::string InitialValues::find_changed(const FlatBuffers& buffers, const at::Tensor& kept) const {
  for (int index = buffers.count() - 1; index >= 0; --index) {
    const auto drawn = std::ranges::find(drawn_, buffers.name(index), &Drawn::name);
    const std::int64_t first = buffers.range(index).begin;
    for (const Range& part : buffers.owned({first + drawn->run.begin, first + drawn->run.end})) {
      const at::Tensor now = buffers.parameters(part);
      const at::Tensor then =
          kept.narrow(0, drawn->begin + part.begin - first - drawn->run.begin, part.size());
      const auto rounded = [&](at::ScalarType dtype) {
        return at::equal(now, then.to(dtype).to(now.scalar_type()));
      };
      if (rounded(now.scalar_type()) || rounded(buffers.dtypes().model)) continue;
      return fmt::format(
          "{} does not begin with the model's values: the precision's convert() or the strategy's "
          "setup() changed them",
          buffers.name(index));
    }
  }
  return {};
}

}  // namespace ddprun
