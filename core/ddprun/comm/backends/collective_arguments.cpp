// Refuses, at the call, what a backend of our own cannot do.
#include "ddprun/comm/backends/collective_arguments.h"

#include "ddprun/base/choice.h"
#include "ddprun/comm/backends/backend_support.h"

namespace ddprun {

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous(),
              "collectives on the CPU take contiguous tensors there, not a ", tensor.toString(),
              tensor.is_contiguous() ? "" : " that is not contiguous");
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "a collective takes one tensor a call, not ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

const std::vector<at::Tensor>& checked_outputs(const std::vector<std::vector<at::Tensor>>& outputs,
                                               const at::Tensor& input, int ranks) {
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<std::size_t>(ranks),
              "all-gather goes into one list of ", ranks, " tensors");
  for (const auto& output : outputs[0]) {
    check_tensor(output);
    TORCH_CHECK(output.nbytes() == input.nbytes(), "all tensors of an all-gather are of one size");
  }
  return outputs[0];
}

void check_all_gather(const at::Tensor& output, const at::Tensor& input, int ranks) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK(bytes_of(output) == bytes_of(input) * ranks, "an all-gather of ", input.nbytes(),
              " bytes gives ", ranks, " times as many, not ", output.nbytes());
}

void check_reduce_scatter(const at::Tensor& output, const at::Tensor& input, int ranks) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK(
      output.scalar_type() == input.scalar_type() && bytes_of(input) == bytes_of(output) * ranks,
      "a reduce-scatter of ", input.nbytes(), " bytes gives one of ", ranks,
      " parts, of the same type");
}

ReduceOp checked_op(const c10d::ReduceOp& op, at::ScalarType type, BackendKind backend) {
  ReduceOp ours = ReduceOp::sum;
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      break;
    case c10d::ReduceOp::AVG:
      ours = ReduceOp::avg;
      break;
    case c10d::ReduceOp::MAX:
      ours = ReduceOp::max;
      break;
    default:
      TORCH_CHECK(false, "backend ", name_of(backend),
                  " reduces by sum, avg and max, not by c10d's operation ",
                  static_cast<int>(op.op_));
  }
  const std::string lacks = backend_lacks(backend, CollectiveKind::all_reduce, type, ours);
  TORCH_CHECK(lacks.empty(), "backend ", name_of(backend), " has ", lacks);
  return ours;
}

int checked_root(std::int64_t root, int ranks) {
  TORCH_CHECK(root >= 0 && root < ranks, "no rank ", root, " to broadcast from among ", ranks);
  return static_cast<int>(root);
}

}  // namespace ddprun
