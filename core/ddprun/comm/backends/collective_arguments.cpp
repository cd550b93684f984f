// Refuses, at the call, what a backend of our own cannot do.
#include "ddprun/comm/backends/collective_arguments.h"

#include "ddprun/base/choice.h"
#include "ddprun/comm/backends/backend_support.h"

namespace ddprun {

namespace {

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous(),
              "collectives on the CPU take contiguous tensors there, not a ", tensor.toString(),
              tensor.is_contiguous() ? "" : " that is not contiguous");
}

/// Where there is an input, what it gives must fit the outputs.
void check_sizes(const CollectiveArguments& arguments, int ranks) {
  const auto& [kind, label, outputs, input, op, root] = arguments;
  if (!input.defined()) return;
  check_tensor(input);
  if (kind == CollectiveKind::reduce_scatter) {
    TORCH_CHECK(outputs[0].scalar_type() == input.scalar_type() &&
                    bytes_of(input) == bytes_of(outputs[0]) * ranks,
                "a reduce-scatter of ", input.nbytes(), " bytes gives one of ", ranks,
                " parts, of the same type");
    return;
  }
  const bool whole = outputs.size() == 1;
  TORCH_CHECK(whole || outputs.size() == static_cast<std::size_t>(ranks),
              "an all-gather goes into one tensor, or one for each of ", ranks, " ranks");
  for (const at::Tensor& output : outputs) {
    TORCH_CHECK(bytes_of(output) == bytes_of(input) * (whole ? ranks : 1), "an all-gather of ",
                input.nbytes(), " bytes from each of ", ranks, " ranks does not fit ",
                output.nbytes());
  }
}

ReduceOp own_op(const c10d::ReduceOp& op, BackendKind backend) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::avg;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    default:
      TORCH_CHECK(false, "backend ", name_of(backend),
                  " reduces by sum, avg and max, not by c10d's operation ",
                  static_cast<int>(op.op_));
  }
}

}  // namespace

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

ReduceOp checked_op(const CollectiveArguments& arguments, BackendKind backend, int ranks) {
  const ReduceOp op = own_op(arguments.op, backend);
  for (const at::Tensor& tensor : arguments.outputs) {
    check_tensor(tensor);
    const std::string lacks = backend_lacks(backend, arguments.kind, tensor.scalar_type(), op);
    TORCH_CHECK(lacks.empty(), "backend ", name_of(backend), " has ", lacks);
  }
  check_sizes(arguments, ranks);
  TORCH_CHECK(arguments.root >= 0 && arguments.root < ranks, "no rank ", arguments.root,
              " to broadcast from among ", ranks);
  return op;
}

std::vector<std::byte*> gathered_places(const CollectiveArguments& arguments, int ranks) {
  const std::vector<at::Tensor>& outputs = arguments.outputs;
  std::vector<std::byte*> places;
  for (int rank = 0; rank < ranks; ++rank) {
    places.push_back(outputs.size() == 1 ? data_of(outputs[0]) + rank * bytes_of(arguments.input)
                                         : data_of(outputs[rank]));
  }
  return places;
}

}  // namespace ddprun
