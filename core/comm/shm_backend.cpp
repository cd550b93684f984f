// Checks c10d's arguments, queues collectives and runs them on the progress thread.
#include "ddprun/comm/shm_backend.h"

#include <ATen/Functions.h>

#include <stdexcept>

#include "ddprun/comm/future_work.h"
#include "ddprun/comm/gloo_backend.h"
#include "ddprun/comm/private_memory.h"
#include "ddprun/comm/shm_reduce.h"
#include "ddprun/config/experiment.h"

namespace ddprun {

namespace {

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous(),
              "the shm backend takes contiguous tensors on the CPU, not a ", tensor.toString(),
              tensor.is_contiguous() ? "" : " that is not contiguous");
}

/// The one tensor of c10d's lists, which are from times of several devices a process.
const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "the shm backend takes one tensor a call, not ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

ReduceOp checked_op(const c10d::ReduceOp& op, at::ScalarType type) {
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
      TORCH_CHECK(false, "the shm backend reduces by sum, avg and max, not by c10d's operation ",
                  static_cast<int>(op.op_));
  }
  TORCH_CHECK(can_reduce(type, ours), "the shm backend has no ",
              ours == ReduceOp::avg ? "avg" : "reduction", " of ", c10::toString(type),
              "; it reduces float32, float64, bfloat16, and by sum and max int32, int64, int8 and "
              "uint8");
  return ours;
}

}  // namespace

ShmBackend::ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       const CommConfig& config)
    : Backend(rank, size),
      collectives_(store, rank, size, to_milliseconds(config.timeout_s)),
      options_(c10::make_intrusive<Options>("shm", to_milliseconds(config.timeout_s))),
      thread_([this] { progress(); }) {}

ShmBackend::~ShmBackend() {
  bool busy = false;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    busy = !tasks_.empty();
  }
  if (busy) collectives_.abort();
  changed_.notify_one();
  thread_.join();
}

void ShmBackend::progress() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task& task = tasks_.front();  // stays there while it runs: no place in a deque moves
    lock.unlock();
    run(task);
    lock.lock();
    tasks_.pop_front();
  }
}

void ShmBackend::run(Task& task) {
  if (!failure_) {
    try {
      task.run();
    } catch (const std::exception&) {
      failure_ = std::current_exception();
      collectives_.mark_failed();
    }
  }
  if (failure_) {
    task.future->setError(failure_);
  } else {
    task.future->markCompleted(c10::IValue(task.tensors));
  }
}

c10::intrusive_ptr<c10d::Work> ShmBackend::submit(std::vector<at::Tensor> results,
                                                  std::function<void()> run) {
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(run), std::move(results), future});
  }
  changed_.notify_one();
  return c10::make_intrusive<FutureWork>(std::move(future));
}

c10::intrusive_ptr<c10d::Work> ShmBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const auto root = static_cast<int>(options.rootRank);
  TORCH_CHECK(root >= 0 && root < getSize(), "no rank ", root, " to broadcast from among ",
              getSize());
  return submit(tensors, [this, tensor, root] {
    collectives_.broadcast(data_of(tensor), bytes_of(tensor), root);
  });
}

c10::intrusive_ptr<c10d::Work> ShmBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const ReduceOp op = checked_op(options.reduceOp, tensor.scalar_type());
  return submit(tensors, [this, tensor, op] {
    collectives_.all_reduce(data_of(tensor), bytes_of(tensor), tensor.scalar_type(), op);
  });
}

c10::intrusive_ptr<c10d::Work> ShmBackend::allreduce_coalesced(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) {
  std::vector<ReduceOp> ops;
  for (const auto& tensor : tensors) {
    check_tensor(tensor);
    ops.push_back(checked_op(options.reduceOp, tensor.scalar_type()));
  }
  return submit(tensors, [this, tensors, ops] {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      collectives_.all_reduce(data_of(tensors[i]), bytes_of(tensors[i]), tensors[i].scalar_type(),
                              ops[i]);
    }
  });
}

c10::intrusive_ptr<c10d::Work> ShmBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                     std::vector<at::Tensor>& inputs,
                                                     const c10d::AllgatherOptions&) {
  const at::Tensor& input = only(inputs);
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<std::size_t>(getSize()),
              "the shm backend gathers into one list of ", getSize(), " tensors");
  for (const auto& output : outputs[0]) {
    check_tensor(output);
    TORCH_CHECK(output.nbytes() == input.nbytes(), "all tensors of an all-gather are of one size");
  }
  return submit(outputs[0], [this, results = outputs[0], input] {
    std::vector<std::byte*> places;
    for (const auto& output : results) places.push_back(data_of(output));
    collectives_.all_gather(places, data_of(input), bytes_of(input));
  });
}

c10::intrusive_ptr<c10d::Work> ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::AllgatherOptions&) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK(bytes_of(output) == bytes_of(input) * getSize(), "an all-gather of ", input.nbytes(),
              " bytes gives ", getSize(), " times as many, not ", output.nbytes());
  return submit({output}, [this, output, input] {
    std::vector<std::byte*> places;
    for (int rank = 0; rank < getSize(); ++rank) {
      places.push_back(data_of(output) + rank * bytes_of(input));
    }
    collectives_.all_gather(places, data_of(input), bytes_of(input));
  });
}

c10::intrusive_ptr<c10d::Work> ShmBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type() &&
                  bytes_of(input) == bytes_of(output) * getSize(),
              "a reduce-scatter of ", input.nbytes(), " bytes gives one of ", getSize(),
              " parts, of the same type");
  const ReduceOp op = checked_op(options.reduceOp, input.scalar_type());
  return submit({output}, [this, output, input, op] {
    collectives_.reduce_scatter(data_of(output), data_of(input), bytes_of(output),
                                input.scalar_type(), op);
  });
}

c10::intrusive_ptr<c10d::Work> ShmBackend::barrier(const c10d::BarrierOptions&) {
  return submit({}, [this] { collectives_.barrier(); });
}

at::Tensor ShmBackend::allocateTensor(long elements, at::TensorOptions options) {
  TORCH_CHECK(options.device().is_cpu() && elements >= 0, "the shm backend allocates on the CPU");
  const auto bytes = elements * static_cast<std::int64_t>(options.dtype().itemsize());
  if (bytes == 0 || getSize() == 1) return allocate_private(elements, options);
  int number = -1;
  submit({}, [this, bytes, &number] { number = collectives_.allocate(bytes); })->wait();
  const auto allocations = collectives_.allocations();
  return at::from_blob(
      allocations->part(number, getRank()), {elements},
      [allocations, number](void*) { allocations->release(number); }, options);
}

}  // namespace ddprun
