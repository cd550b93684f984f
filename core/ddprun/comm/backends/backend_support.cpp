// What backends cannot reduce, and what those of our own refuse at the call.
#include "ddprun/comm/backends/backend_support.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/choice.h"
#include "ddprun/comm/backends/shm_reduce.h"

namespace ddprun {

namespace {

/// Whether the backend's arithmetic, or the division after it, takes the type.
bool takes(BackendKind backend, at::ScalarType type, ReduceOp op) {
  if (backend == BackendKind::nccl || backend == BackendKind::automatic) return true;
  if (backend == BackendKind::shm || backend == BackendKind::hierarchical) {
    return can_reduce(type, op);  // of the latter, its stages within a host
  }
  if (op == ReduceOp::avg && !at::isFloatingType(type)) return false;
  return backend == BackendKind::gloo ||  // mpi has no types of 16 bits
         (type != at::kHalf && type != at::kBFloat16);
}

}  // namespace

bool reduces(CollectiveKind collective) {
  return collective == CollectiveKind::all_reduce || collective == CollectiveKind::reduce_scatter;
}

std::string backend_lacks(BackendKind backend, CollectiveKind collective, at::ScalarType type,
                          ReduceOp op) {
  if (!reduces(collective) || takes(backend, type, op)) return {};
  const bool takes_sums = takes(backend, type, ReduceOp::sum);
  return fmt::format("no {} of {}", takes_sums ? "avg" : "reduction",
                     c10::getDtypeNames(type).first);
}

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

ReduceOp checked_op(const CollectiveArguments& arguments, BackendKind backend, int ranks) {
  const auto* const found = std::ranges::find(kC10dOps, arguments.op.op_);
  TORCH_CHECK(found != kC10dOps.end(), "backend ", name_of(backend),
              " reduces by sum, avg and max, not by c10d's operation ",
              static_cast<int>(arguments.op.op_));
  const auto op = static_cast<ReduceOp>(found - kC10dOps.begin());
  for (const at::Tensor& tensor : arguments.outputs) {
    const std::string lacks = backend_lacks(backend, arguments.kind, tensor.scalar_type(), op);
    TORCH_CHECK(lacks.empty(), "backend ", name_of(backend), " has ", lacks);
  }
  TORCH_CHECK(arguments.root >= 0 && arguments.root < ranks, "no rank ", arguments.root,
              " to broadcast from among ", ranks);
  return op;
}

}  // namespace ddprun
