// Queues collectives, each as MPI's call.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <mpi.h>

#include <limits>
#include <map>

#include "ddprun/base/build_id.h"
#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/comm/backends/task_queue.h"
#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/comm_config.h"
#include "ddprun/comm/launch/mpi_library.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/memory/private_memory.h"
#include "ddprun/mpi/mpi_session.h"

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

/// MPI's calls within a group. Each collective has a copy: one that was given up may return when
/// the backend is gone.
struct Calls {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;

  void run(const CollectiveArguments& arguments, ReduceOp op) const {
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
                               static_cast<int>(arguments.root), comm),
                     "MPI_Bcast");
      }
      case CollectiveKind::barrier:
        return check(MPI_Barrier(comm), "MPI_Barrier");
    }
  }

 private:
  void all_reduce(const CollectiveArguments& arguments, ReduceOp op) const {
    for (at::Tensor tensor : arguments.outputs) {
      check(MPI_Allreduce(MPI_IN_PLACE, data_of(tensor), count_of(tensor),
                          number_type(tensor.scalar_type()), undivided(op), comm),
            "MPI_Allreduce");
      if (op == ReduceOp::avg) tensor.div_(size);
    }
  }

  void reduce_scatter(const CollectiveArguments& arguments, ReduceOp op) const {
    const at::Tensor& input = arguments.input;
    at::Tensor output = arguments.outputs[0];
    // MPI's input and output must be apart.
    at::Tensor slice = overlap(input, output) ? at::empty_like(output) : output;
    check(MPI_Reduce_scatter_block(data_of(input), data_of(slice), count_of(output),
                                   number_type(input.scalar_type()), undivided(op), comm),
          "MPI_Reduce_scatter_block");
    if (op == ReduceOp::avg) slice.div_(size);
    if (data_of(slice) != data_of(output)) output.copy_(slice);
  }

  void all_gather(const CollectiveArguments& arguments) const {
    const std::vector<at::Tensor>& outputs = arguments.outputs;
    const at::Tensor& input = arguments.input;
    const at::Tensor gathered =
        outputs.size() == 1 ? outputs[0] : at::empty({size, input.numel()}, input.options());
    const int count = count_of(input);
    const MPI_Datatype type = moved_type(input);
    const bool in_place = data_of(input) == data_of(gathered) + rank * bytes_of(input);
    check(MPI_Allgather(in_place ? MPI_IN_PLACE : data_of(input), count, type, data_of(gathered),
                        count, type, comm),
          "MPI_Allgather");
    for (std::size_t i = 0; outputs.size() > 1 && i < outputs.size(); ++i) {
      at::Tensor output = outputs[i];
      output.copy_(gathered[static_cast<std::int64_t>(i)].view(output.sizes()));
    }
  }
};

/// Each collective is MPI's blocking one, on a thread of its own, one at a time, in the order of
/// the calls: MPI's non-blocking collectives are other, slower algorithms. All-reduce and
/// reduce-scatter do sum, avg and max of the types that MPI has (backend_lacks()). The other
/// collectives take any type. Tensors are contiguous and on the CPU, of 2^31 - 1 elements at most
/// (a slice of them, where there are slices), because MPI counts in int. What the backend cannot do
/// is refused at the call (c10::Error).
///
/// MPI cannot end a collective that waits for a rank which does not come. After config.timeout_s it
/// is given up: it and all later ones fail, and this process makes no group over MPI any more.
class MpiBackend final : public CollectiveBackend {
 public:
  /// All ranks of MPI_COMM_WORLD call it. Throws std::runtime_error.
  MpiBackend(Session& session, const CommConfig& config)
      : CollectiveBackend(session.rank(), session.size(), "mpi", to_milliseconds(config.timeout_s)),
        session_(session),
        calls_{.rank = session.rank(), .size = session.size()},
        tasks_(to_milliseconds(config.timeout_s), [&session] { session.mark_stuck(); }) {
    const CallLimit within("MPI_Comm_dup", to_milliseconds(config.timeout_s));
    check(MPI_Comm_dup(MPI_COMM_WORLD, &calls_.comm), "MPI_Comm_dup");
    // The default handler ends the process.
    check(MPI_Comm_set_errhandler(calls_.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }

  ~MpiBackend() override {
    if (!ended_) session_.mark_failed();
  }

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override {
    const ReduceOp op = checked_op(arguments, BackendKind::mpi, getSize());
    const bool gathers = arguments.kind == CollectiveKind::all_gather;  // counts one rank's part
    for (const at::Tensor& each : gathers ? std::vector{arguments.input} : arguments.outputs) {
      count_of(each);
    }
    return tasks_.submit(arguments.outputs,
                         [calls = calls_, arguments, op] { calls.run(arguments, op); });
  }

  /// Ordinary memory: MPI copies between processes by itself.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override {
    return allocate_private(elements, options);
  }

  /// Ends in order. All ranks call it, with no collective under way.
  void shutdown() override {
    const CallLimit within("MPI_Comm_free", getBackendOptions()->timeout);
    check(MPI_Comm_free(&calls_.comm), "MPI_Comm_free");
    ended_ = true;
  }

 private:
  Session& session_;
  Calls calls_;
  bool ended_ = false;
  TaskQueue tasks_;
};

/// Refuses a process that MPI counts otherwise than the launch does: one that MPI did not start is
/// alone in MPI's world.
void check_place(const Session& session, int rank, int world_size, const std::string& where) {
  if (session.stuck()) {
    throw CommError({.what = "MPI cannot be used again in this launch",
                     .where = where,
                     .got = "a collective of an earlier run that never ended",
                     .expected = "no such run before this one",
                     .hint = "run this row alone, in a launch of its own"});
  }
  if (session.rank() == rank && session.size() == world_size) return;
  throw CommError({.what = "MPI counts other ranks than the launcher",
                   .where = where,
                   .got = fmt::format("rank {} of {} in MPI", session.rank(), session.size()),
                   .expected = "the same number and size",
                   .hint = "mpirun of the MPI that ddprun was built with must start the ranks, or "
                           "srun with --mpi=pmix"});
}

c10::intrusive_ptr<c10d::Backend> make(int rank, int world_size, const CommConfig& config) {
  const std::string where = fmt::format("rank {} of {}", rank, world_size);
  try {
    Session& session = Session::get(to_milliseconds(config.timeout_s));
    check_place(session, rank, world_size, where);
    return c10::make_intrusive<MpiBackend>(session, config);
  } catch (const std::exception& failure) {
    throw_comm_error(failure, {.what = "MPI could not connect this rank to the others",
                               .where = where,
                               .expected = "the ranks of one launch of mpirun"});
  }
}

}  // namespace

}  // namespace ddprun::mpi

/// The one C symbol through which the core finds this library.
extern "C" __attribute__((visibility("default"))) const ddprun::MpiDescriptor ddprun_mpi_v1;
const ddprun::MpiDescriptor ddprun_mpi_v1 = {
    {sizeof(ddprun::MpiDescriptor), ddprun::kMpiApiVersion, DDPRUN_BUILD_ID, "mpi"},
    ddprun::mpi::version,
    ddprun::mpi::make,
    ddprun::mpi::Session::finish};
