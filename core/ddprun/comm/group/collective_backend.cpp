// From c10d's calls to arguments, and back.
#include "ddprun/comm/group/collective_backend.h"

#include <utility>

namespace ddprun {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// The one element of the list. c10d takes lists because a process once had several devices.
template <typename T>
const T& only(const std::vector<T>& list) {
  TORCH_CHECK(list.size() == 1, "a collective takes one tensor a call, not ", list.size());
  return list[0];
}

}  // namespace

std::int64_t CollectiveArguments::bytes() const {
  if (kind == CollectiveKind::reduce_scatter) return static_cast<std::int64_t>(input.nbytes());
  std::size_t bytes = 0;
  for (const at::Tensor& output : outputs) bytes += output.nbytes();
  return static_cast<std::int64_t>(bytes);
}

WorkPtr start_on(c10d::Backend& backend, CollectiveArguments arguments) {
  if (auto* const own = dynamic_cast<CollectiveBackend*>(&backend)) {
    return own->start(std::move(arguments));
  }
  std::vector<at::Tensor>& outputs = arguments.outputs;
  switch (arguments.kind) {
    case CollectiveKind::all_reduce: {
      c10d::AllreduceCoalescedOptions options;
      options.reduceOp = arguments.op;
      return outputs.size() == 1 ? backend.allreduce(outputs, options)
                                 : backend.allreduce_coalesced(outputs, options);
    }
    case CollectiveKind::broadcast:
      return backend.broadcast(outputs, {.rootRank = arguments.root});
    case CollectiveKind::reduce_scatter:
      return backend._reduce_scatter_base(outputs.at(0), arguments.input,
                                          {.reduceOp = arguments.op});
    case CollectiveKind::all_gather: {
      if (outputs.size() == 1) return backend._allgather_base(outputs[0], arguments.input);
      std::vector<std::vector<at::Tensor>> lists = {std::move(outputs)};
      std::vector<at::Tensor> inputs = {arguments.input};
      return backend.allgather(lists, inputs);
    }
    case CollectiveKind::barrier:
      break;
  }
  return backend.barrier();
}

CollectiveBackend::CollectiveBackend(int rank, int size, std::string name,
                                     std::chrono::milliseconds timeout)
    : Backend(rank, size), options_(c10::make_intrusive<Options>(std::move(name), timeout)) {}

WorkPtr CollectiveBackend::broadcast(std::vector<at::Tensor>& tensors,
                                     const c10d::BroadcastOptions& options) {
  return start({.kind = CollectiveKind::broadcast,
                .label = "c10d.broadcast",
                .outputs = {only(tensors)},
                .root = options.rootRank});
}

WorkPtr CollectiveBackend::allreduce(std::vector<at::Tensor>& tensors,
                                     const c10d::AllreduceOptions& options) {
  return start({.kind = CollectiveKind::all_reduce,
                .label = "c10d.allreduce",
                .outputs = {only(tensors)},
                .op = options.reduceOp});
}

WorkPtr CollectiveBackend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                               const c10d::AllreduceCoalescedOptions& options) {
  return start({.kind = CollectiveKind::all_reduce,
                .label = "c10d.allreduce_coalesced",
                .outputs = tensors,
                .op = options.reduceOp});
}

WorkPtr CollectiveBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                     std::vector<at::Tensor>& inputs,
                                     const c10d::AllgatherOptions&) {
  TORCH_CHECK(only(outputs).size() == static_cast<std::size_t>(getSize()),
              "an all-gather goes into one list of ", getSize(), " tensors");
  return start({.kind = CollectiveKind::all_gather,
                .label = "c10d.allgather",
                .outputs = only(outputs),
                .input = only(inputs)});
}

WorkPtr CollectiveBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::AllgatherOptions&) {
  return start({.kind = CollectiveKind::all_gather,
                .label = "c10d._allgather_base",
                .outputs = {output},
                .input = input});
}

WorkPtr CollectiveBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::ReduceScatterOptions& options) {
  return start({.kind = CollectiveKind::reduce_scatter,
                .label = "c10d._reduce_scatter_base",
                .outputs = {output},
                .input = input,
                .op = options.reduceOp});
}

WorkPtr CollectiveBackend::barrier(const c10d::BarrierOptions&) {
  return start({.label = "c10d.barrier"});
}

}  // namespace ddprun
