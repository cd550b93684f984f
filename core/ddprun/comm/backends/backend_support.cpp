// What backends cannot reduce.
#include "ddprun/comm/backends/backend_support.h"

#include "ddprun/comm/backends/shm_reduce.h"

namespace ddprun {

bool reduces(CollectiveKind collective) {
  return collective == CollectiveKind::all_reduce || collective == CollectiveKind::reduce_scatter;
}

namespace {

/// Whether the backend's arithmetic, or the division after it, takes the type.
bool takes(BackendKind backend, at::ScalarType type, ReduceOp op) {
  switch (backend) {
    case BackendKind::shm:
    case BackendKind::hierarchical:  // its stages within a host
      return can_reduce(type, op);
    case BackendKind::gloo:
      return op != ReduceOp::avg || at::isFloatingType(type);
    case BackendKind::mpi:  // has no types of 16 bits
      return type != at::kHalf && type != at::kBFloat16 &&
             (op != ReduceOp::avg || at::isFloatingType(type));
    case BackendKind::nccl:
    case BackendKind::automatic:
      return true;
  }
  return true;
}

}  // namespace

std::string backend_lacks(BackendKind backend, CollectiveKind collective, at::ScalarType type,
                          ReduceOp op) {
  if (!reduces(collective) || takes(backend, type, op)) return {};
  const bool takes_sums = takes(backend, type, ReduceOp::sum);
  return std::string("no ") + (takes_sums ? "avg" : "reduction") + " of " +
         c10::getDtypeNames(type).first;
}

}  // namespace ddprun
