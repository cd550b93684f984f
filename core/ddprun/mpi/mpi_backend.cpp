// Queues collectives, each as MPI's call.
#include "ddprun/mpi/mpi_backend.h"

#include <ATen/Functions.h>

#include <limits>
#include <map>

#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/memory/private_memory.h"
#include "ddprun/mpi/call_limit.h"

namespace ddprun::mpi {

namespace {

/// The type that MPI computes with: one of those that backend_lacks() leaves.
MPI_Datatype number_type(at::ScalarType type) {
  static const std::map<at::ScalarType, MPI_Datatype> types = {
      {at::kFloat, MPI_FLOAT},  {at::kDouble, MPI_DOUBLE}, {at::kInt, MPI_INT32_T},
      {at::kLong, MPI_INT64_T}, {at::kChar, MPI_INT8_T},   {at::kByte, MPI_UINT8_T}};
  return types.at(type);
}

/// A type of that many bytes, for elements that are only moved.
MPI_Datatype moved_type(const at::Tensor& tensor) {
  static const std::map<std::size_t, MPI_Datatype> types = {{1, MPI_UINT8_T},
                                                            {2, MPI_UINT16_T},
                                                            {4, MPI_UINT32_T},
                                                            {8, MPI_UINT64_T},
                                                            {16, MPI_C_DOUBLE_COMPLEX}};
  return types.at(tensor.element_size());
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
    : CollectiveBackend(session.rank(), session.size(), "mpi", to_milliseconds(config.timeout_s)),
      session_(session),
      tasks_(to_milliseconds(config.timeout_s), [&session] { session.mark_stuck(); }) {
  const CallLimit within("MPI_Comm_dup", to_milliseconds(config.timeout_s));
  check(MPI_Comm_dup(MPI_COMM_WORLD, &ranks_), "MPI_Comm_dup");
  // The default handler ends the process.
  check(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiBackend::~MpiBackend() {
  if (!ended_) session_.mark_failed();
}

void MpiBackend::shutdown() {
  const CallLimit within("MPI_Comm_free", getBackendOptions()->timeout);
  check(MPI_Comm_free(&ranks_), "MPI_Comm_free");
  ended_ = true;
}

c10::intrusive_ptr<c10d::Work> MpiBackend::start(CollectiveArguments arguments) {
  const ReduceOp op = checked_op(arguments, BackendKind::mpi, getSize());
  const bool gathers = arguments.kind == CollectiveKind::all_gather;  // counts one rank's part
  for (const at::Tensor& each : gathers ? std::vector{arguments.input} : arguments.outputs) {
    count_of(each);
  }
  return tasks_.submit(arguments.outputs, [this, arguments, op] { run(arguments, op); });
}

void MpiBackend::run(const CollectiveArguments& arguments, ReduceOp op) const {
  switch (arguments.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce(arguments, op);
    case CollectiveKind::reduce_scatter:
      return reduce_scatter(arguments, op);
    case CollectiveKind::all_gather:
      return all_gather(arguments);
    case CollectiveKind::broadcast: {
      const at::Tensor& tensor = arguments.outputs[0];
      return check(MPI_Bcast(data_of(tensor), count_of(tensor), moved_type(tensor),
                             static_cast<int>(arguments.root), ranks_),
                   "MPI_Bcast");
    }
    case CollectiveKind::barrier:
      return check(MPI_Barrier(ranks_), "MPI_Barrier");
  }
}

void MpiBackend::all_reduce(const CollectiveArguments& arguments, ReduceOp op) const {
  for (at::Tensor tensor : arguments.outputs) {
    check(MPI_Allreduce(MPI_IN_PLACE, data_of(tensor), count_of(tensor),
                        number_type(tensor.scalar_type()), undivided(op), ranks_),
          "MPI_Allreduce");
    if (op == ReduceOp::avg) tensor.div_(getSize());
  }
}

void MpiBackend::reduce_scatter(const CollectiveArguments& arguments, ReduceOp op) const {
  const at::Tensor& input = arguments.input;
  at::Tensor output = arguments.outputs[0];
  // MPI's input and output must be apart.
  at::Tensor slice = overlap(input, output) ? at::empty_like(output) : output;
  check(MPI_Reduce_scatter_block(data_of(input), data_of(slice), count_of(output),
                                 number_type(input.scalar_type()), undivided(op), ranks_),
        "MPI_Reduce_scatter_block");
  if (op == ReduceOp::avg) slice.div_(getSize());
  if (data_of(slice) != data_of(output)) output.copy_(slice);
}

/// Tensors that lie anywhere are copied from one array, into which MPI gathers.
void MpiBackend::all_gather(const CollectiveArguments& arguments) const {
  const std::vector<at::Tensor>& outputs = arguments.outputs;
  const at::Tensor& input = arguments.input;
  const at::Tensor gathered =
      outputs.size() == 1 ? outputs[0] : at::empty({getSize(), input.numel()}, input.options());
  const int count = count_of(input);
  const MPI_Datatype type = moved_type(input);
  const bool in_place = data_of(input) == data_of(gathered) + getRank() * bytes_of(input);
  check(MPI_Allgather(in_place ? MPI_IN_PLACE : data_of(input), count, type, data_of(gathered),
                      count, type, ranks_),
        "MPI_Allgather");
  for (std::size_t rank = 0; outputs.size() > 1 && rank < outputs.size(); ++rank) {
    at::Tensor output = outputs[rank];
    output.copy_(gathered[static_cast<std::int64_t>(rank)].view(output.sizes()));
  }
}

at::Tensor MpiBackend::allocateTensor(long elements, at::TensorOptions options) {
  return allocate_private(elements, options);
}

}  // namespace ddprun::mpi
