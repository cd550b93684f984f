// Checks c10d's arguments and queues MPI's calls.
#include "ddprun/mpi/mpi_backend.h"

#include <ATen/Functions.h>

#include <limits>

#include "ddprun/base/private_memory.h"
#include "ddprun/comm/backends/collective_arguments.h"
#include "ddprun/comm/backends/gloo_backend.h"

namespace ddprun::mpi {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// The type that MPI computes with: one of those that backend_lacks() leaves.
MPI_Datatype number_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kInt:
      return MPI_INT32_T;
    case at::kLong:
      return MPI_INT64_T;
    case at::kChar:
      return MPI_INT8_T;
    case at::kByte:
      return MPI_UINT8_T;
    default:
      TORCH_CHECK(false, "MPI has no type for ", c10::toString(type));
  }
}

/// A type of that many bytes, for elements that are only moved.
MPI_Datatype moved_type(const at::Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    case 8:
      return MPI_UINT64_T;
    default:
      return MPI_C_DOUBLE_COMPLEX;
  }
}

int count_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.numel() <= std::numeric_limits<int>::max(),
              "MPI counts elements in int: at most 2147483647 a tensor or slice, not ",
              tensor.numel());
  return static_cast<int>(tensor.numel());
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  return data_of(a) < data_of(b) + bytes_of(b) && data_of(b) < data_of(a) + bytes_of(a);
}

/// avg is the sum, divided once.
MPI_Op undivided(ReduceOp op) { return op == ReduceOp::max ? MPI_MAX : MPI_SUM; }

}  // namespace

MpiBackend::MpiBackend(Session& session, const CommConfig& config)
    : Backend(session.rank(), session.size()),
      session_(session),
      options_(c10::make_intrusive<Options>("mpi", to_milliseconds(config.timeout_s))),
      tasks_(to_milliseconds(config.timeout_s), [&session] { session.mark_stuck(); }) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &ranks_), "MPI_Comm_dup");
  // The default handler ends the process.
  check(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiBackend::~MpiBackend() {
  if (!ended_) session_.mark_failed();
}

void MpiBackend::shutdown() {
  check(MPI_Comm_free(&ranks_), "MPI_Comm_free");
  ended_ = true;
}

WorkPtr MpiBackend::broadcast(std::vector<at::Tensor>& tensors,
                              const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const int root = checked_root(options.rootRank, getSize());
  const int count = count_of(tensor);
  return tasks_.submit(tensors, [this, tensor, root, count] {
    check(MPI_Bcast(data_of(tensor), count, moved_type(tensor), root, ranks_), "MPI_Bcast");
  });
}

WorkPtr MpiBackend::all_reduce(const std::vector<at::Tensor>& tensors, const c10d::ReduceOp& op) {
  std::vector<ReduceOp> ops;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor);
    count_of(tensor);
    ops.push_back(checked_op(op, tensor.scalar_type(), BackendKind::mpi));
  }
  return tasks_.submit(tensors, [this, tensors, ops] {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      at::Tensor tensor = tensors[i];
      check(MPI_Allreduce(MPI_IN_PLACE, data_of(tensor), count_of(tensor),
                          number_type(tensor.scalar_type()), undivided(ops[i]), ranks_),
            "MPI_Allreduce");
      if (ops[i] == ReduceOp::avg) tensor.div_(getSize());
    }
  });
}

WorkPtr MpiBackend::allreduce(std::vector<at::Tensor>& tensors,
                              const c10d::AllreduceOptions& options) {
  only(tensors);
  return all_reduce(tensors, options.reduceOp);
}

WorkPtr MpiBackend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                        const c10d::AllreduceCoalescedOptions& options) {
  return all_reduce(tensors, options.reduceOp);
}

WorkPtr MpiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions&) {
  check_all_gather(output, input, getSize());
  const int count = count_of(input);
  return tasks_.submit({output}, [this, output, input, count] {
    const MPI_Datatype type = moved_type(input);
    const bool in_place = data_of(input) == data_of(output) + getRank() * bytes_of(input);
    check(MPI_Allgather(in_place ? MPI_IN_PLACE : data_of(input), count, type, data_of(output),
                        count, type, ranks_),
          "MPI_Allgather");
  });
}

/// Into tensors that lie anywhere: MPI gathers into one array, from which they are copied.
WorkPtr MpiBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                              std::vector<at::Tensor>& inputs, const c10d::AllgatherOptions&) {
  const at::Tensor& input = only(inputs);
  const std::vector<at::Tensor>& results = checked_outputs(outputs, input, getSize());
  const int count = count_of(input);
  return tasks_.submit(results, [this, results, input, count] {
    const at::Tensor gathered = at::empty({getSize(), input.numel()}, input.options());
    const MPI_Datatype type = moved_type(input);
    check(MPI_Allgather(data_of(input), count, type, data_of(gathered), count, type, ranks_),
          "MPI_Allgather");
    for (int rank = 0; rank < getSize(); ++rank) {
      at::Tensor result = results[static_cast<std::size_t>(rank)];
      result.copy_(gathered[rank].view(result.sizes()));
    }
  });
}

WorkPtr MpiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                         const c10d::ReduceScatterOptions& options) {
  check_reduce_scatter(output, input, getSize());
  const ReduceOp op = checked_op(options.reduceOp, input.scalar_type(), BackendKind::mpi);
  const int count = count_of(output);
  return tasks_.submit({output}, [this, output, input, op, count] {
    // MPI's input and output must be apart.
    at::Tensor slice = overlap(input, output) ? at::empty_like(output) : output;
    check(MPI_Reduce_scatter_block(data_of(input), data_of(slice), count,
                                   number_type(input.scalar_type()), undivided(op), ranks_),
          "MPI_Reduce_scatter_block");
    if (op == ReduceOp::avg) slice.div_(getSize());
    if (data_of(slice) != data_of(output)) at::Tensor(output).copy_(slice);
  });
}

WorkPtr MpiBackend::barrier(const c10d::BarrierOptions&) {
  return tasks_.submit({}, [this] { check(MPI_Barrier(ranks_), "MPI_Barrier"); });
}

at::Tensor MpiBackend::allocateTensor(long elements, at::TensorOptions options) {
  return allocate_private(elements, options);
}

}  // namespace ddprun::mpi
