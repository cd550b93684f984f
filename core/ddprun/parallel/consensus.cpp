// The distance of ranks from their mean, parameter by parameter.
#include "ddprun/parallel/consensus.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace ddprun {

bool ranks_differ(const DataParallel& data_parallel) {
  const Agreement agreement = data_parallel.context().plan().agreement;
  return agreement == Agreement::periodic || agreement == Agreement::none;
}

std::optional<double> consensus_distance(const DataParallel& data_parallel) {
  if (!ranks_differ(data_parallel)) return std::nullopt;
  ProcessGroup& group = data_parallel.context().process_group();
  const FlatBuffers& buffers = data_parallel.buffers();
  const auto in_double = at::TensorOptions(group.device().torch_device()).dtype(at::kDouble);
  const at::Tensor squares = at::zeros({2}, in_double);    // of the distance, of the mean
  for (int index = 0; index < buffers.count(); ++index) {  // in double, so one at a time
    const at::Tensor own = buffers.parameters(buffers.range(index)).to(at::kDouble);
    const at::Tensor mean = own.clone();
    group.all_reduce(mean, ReduceOp::avg, "consensus").wait();
    const at::Tensor apart = own - mean;
    squares.add_(at::stack({apart.dot(apart), mean.dot(mean)}));
  }
  group.all_reduce(squares, ReduceOp::avg, "consensus").wait();
  return std::sqrt(squares[0].item<double>() / squares[1].item<double>());
}

}  // namespace ddprun
