// Checks c10d's arguments and queues the collectives.
#include "ddprun/comm/backends/shm_backend.h"

#include "ddprun/comm/backends/collective_arguments.h"
#include "ddprun/comm/backends/gloo_backend.h"

namespace ddprun {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

ShmBackend::ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const CommConfig& config, std::vector<int> members)
    : Backend(rank, size),
      queue_(store, {rank, size, std::move(members)}, to_milliseconds(config.timeout_s)),
      options_(c10::make_intrusive<Options>("shm", to_milliseconds(config.timeout_s))) {}

WorkPtr ShmBackend::broadcast(std::vector<at::Tensor>& tensors,
                              const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const int root = checked_root(options.rootRank, getSize());
  return queue_.submit(tensors, [tensor, root](ShmCollectives& shm) {
    shm.broadcast(data_of(tensor), bytes_of(tensor), root);
  });
}

WorkPtr ShmBackend::allreduce(std::vector<at::Tensor>& tensors,
                              const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const ReduceOp op = checked_op(options.reduceOp, tensor.scalar_type(), BackendKind::shm);
  return queue_.submit(tensors, [tensor, op](ShmCollectives& shm) {
    shm.all_reduce(data_of(tensor), bytes_of(tensor), tensor.scalar_type(), op);
  });
}

WorkPtr ShmBackend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                        const c10d::AllreduceCoalescedOptions& options) {
  std::vector<ReduceOp> ops;
  for (const auto& tensor : tensors) {
    check_tensor(tensor);
    ops.push_back(checked_op(options.reduceOp, tensor.scalar_type(), BackendKind::shm));
  }
  return queue_.submit(tensors, [tensors, ops](ShmCollectives& shm) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      shm.all_reduce(data_of(tensors[i]), bytes_of(tensors[i]), tensors[i].scalar_type(), ops[i]);
    }
  });
}

WorkPtr ShmBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                              std::vector<at::Tensor>& inputs, const c10d::AllgatherOptions&) {
  const at::Tensor& input = only(inputs);
  const auto& results = checked_outputs(outputs, input, getSize());
  return queue_.submit(results, [results, input](ShmCollectives& shm) {
    std::vector<std::byte*> places;
    for (const auto& output : results) places.push_back(data_of(output));
    shm.all_gather(places, data_of(input), bytes_of(input));
  });
}

WorkPtr ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions&) {
  check_all_gather(output, input, getSize());
  return queue_.submit({output}, [output, input, size = getSize()](ShmCollectives& shm) {
    std::vector<std::byte*> places;
    for (int rank = 0; rank < size; ++rank) {
      places.push_back(data_of(output) + rank * bytes_of(input));
    }
    shm.all_gather(places, data_of(input), bytes_of(input));
  });
}

WorkPtr ShmBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::ReduceScatterOptions& options) {
  check_reduce_scatter(output, input, getSize());
  const ReduceOp op = checked_op(options.reduceOp, input.scalar_type(), BackendKind::shm);
  return queue_.submit({output}, [output, input, op](ShmCollectives& shm) {
    shm.reduce_scatter(data_of(output), data_of(input), bytes_of(output), input.scalar_type(), op);
  });
}

WorkPtr ShmBackend::barrier(const c10d::BarrierOptions&) {
  return queue_.submit({}, [](ShmCollectives& shm) { shm.barrier(); });
}

at::Tensor ShmBackend::allocateTensor(long elements, at::TensorOptions options) {
  return queue_.allocate(elements, options);
}

}  // namespace ddprun
