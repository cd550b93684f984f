// Each rank broadcasts what it owns.
#include "ddprun/train/whole_buffers.h"

#include <ATen/ops/zeros.h>

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
  for (int rank = 0; rank < group.size(); ++rank) {
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

}  // namespace ddprun
