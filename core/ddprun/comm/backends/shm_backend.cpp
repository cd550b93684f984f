// Queues collectives, each as its call of ShmCollectives.
#include "ddprun/comm/backends/shm_backend.h"

#include "ddprun/comm/backends/collective_arguments.h"
#include "ddprun/comm/backends/gloo_backend.h"

namespace ddprun {

namespace {

void run(ShmCollectives& shm, const CollectiveArguments& arguments, ReduceOp op) {
  const auto& outputs = arguments.outputs;
  const at::Tensor& input = arguments.input;
  switch (arguments.kind) {
    case CollectiveKind::all_reduce:
      for (const at::Tensor& each : outputs) {
        shm.all_reduce(data_of(each), bytes_of(each), each.scalar_type(), op);
      }
      return;
    case CollectiveKind::broadcast:
      return shm.broadcast(data_of(outputs[0]), bytes_of(outputs[0]),
                           static_cast<int>(arguments.root));
    case CollectiveKind::reduce_scatter:
      return shm.reduce_scatter(data_of(outputs[0]), data_of(input), bytes_of(outputs[0]),
                                input.scalar_type(), op);
    case CollectiveKind::all_gather:
      return shm.all_gather(gathered_places(arguments, shm.place().size), data_of(input),
                            bytes_of(input));
    case CollectiveKind::barrier:
      return shm.barrier();
  }
}

}  // namespace

ShmBackend::ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const CommConfig& config, std::vector<int> members)
    : CollectiveBackend(rank, size, "shm", to_milliseconds(config.timeout_s)),
      queue_(store, {rank, size, std::move(members)}, to_milliseconds(config.timeout_s)) {}

c10::intrusive_ptr<c10d::Work> ShmBackend::start(CollectiveArguments arguments) {
  const ReduceOp op = checked_op(arguments, BackendKind::shm, getSize());
  return queue_.submit(arguments.outputs,
                       [arguments, op](ShmCollectives& shm) { run(shm, arguments, op); });
}

at::Tensor ShmBackend::allocateTensor(long elements, at::TensorOptions options) {
  return queue_.allocate(elements, options);
}

}  // namespace ddprun
