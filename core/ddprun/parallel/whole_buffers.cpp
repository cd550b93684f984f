// Each rank broadcasts what it owns; what is frozen is gathered.
#include "ddprun/parallel/whole_buffers.h"

#include <ATen/ops/zeros.h>

#include <cstddef>
#include <functional>

#include "ddprun/optim/flat_parts.h"

namespace ddprun {

namespace {

at::Tensor whole(const DataParallel& data_parallel, Range range, at::ScalarType dtype,
                 const std::function<at::Tensor(Range)>& view) {
  const FlatBuffers& buffers = data_parallel.buffers();
  if (buffers.owns_all()) return view(range);
  ProcessGroup& group = data_parallel.context().process_group();
  const at::Tensor values =
      at::zeros({range.size()}, buffers.parameter(0).options().dtype(dtype).requires_grad(false));
  const int shards = buffers.holding().shards;
  const int ranks = shards == 0 ? group.size() : shards;  // the first own all of it together
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Range& own : data_parallel.owned_by(rank)) {
      const Range part = shared(own, range);
      if (part.size() <= 0) continue;
      const at::Tensor place = part_of(values, range, part);
      if (rank == group.rank()) place.copy_(view(part));
      group.broadcast(place, rank, "whole").wait();
    }
  }
  return values;
}

/// A copy of `values`, (elements,), in the shape in which parameter `index` was given.
at::Tensor as_given(const FlatBuffers& buffers, int index, const at::Tensor& values) {
  const at::Tensor given = buffers.empty_like(index);
  return values.clone().as_strided(given.sizes(), given.strides());
}

/// In registration order.
std::vector<at::Tensor> whole_frozen(const DataParallel& data_parallel) {
  std::vector<at::Tensor> all;
  const FrozenParameters* const frozen = data_parallel.frozen();
  if (frozen == nullptr) return all;
  const FlatBuffers& buffers = frozen->buffers();
  for (const Unit& unit : buffers.units()) {
    const at::Tensor values = frozen->whole(unit);
    for (int index = unit.last; index >= unit.first; --index) {
      all.push_back(as_given(buffers, index, part_of(values, unit.range, buffers.range(index))));
    }
  }
  return all;
}

}  // namespace

at::Tensor whole_parameters(const DataParallel& data_parallel, Range range) {
  const FlatBuffers& buffers = data_parallel.buffers();
  return whole(data_parallel, range, buffers.dtypes().parameters,
               [&](Range part) { return buffers.parameters(part); });
}

at::Tensor whole_gradients(const DataParallel& data_parallel, Range range) {
  const FlatBuffers& buffers = data_parallel.buffers();
  return whole(data_parallel, range, buffers.mean_dtype(),
               [&](Range part) { return buffers.mean(part); });
}

at::Tensor unscaled_gradients(const DataParallel& data_parallel, const at::Tensor& scaled_by) {
  const at::Tensor gradients = whole_gradients(data_parallel, data_parallel.buffers().all())
                                   .to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  return scaled_by.defined() ? gradients / scaled_by : gradients;
}

std::vector<NamedTensor> full_parameters(const DataParallel& data_parallel) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const ParameterRoles& roles = data_parallel.roles();
  std::vector<at::Tensor> trained;
  for (int number = 0; number < buffers.count(); ++number) {
    const int index = buffers.count() - 1 - number;  // buffers are in reverse order
    trained.push_back(
        as_given(buffers, index, whole_parameters(data_parallel, buffers.range(index))));
  }
  const std::vector<at::Tensor> frozen = whole_frozen(data_parallel);
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < roles.places.size(); ++i) {
    const auto [is_trained, number] = roles.places[i];
    all.push_back(
        {.name = roles.names[i], .tensor = is_trained ? trained[number] : frozen[number]});
  }
  return all;
}

}  // namespace ddprun
