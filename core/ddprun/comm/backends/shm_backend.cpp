// Queues collectives, each as its call of ShmCollectives.
#include "ddprun/comm/backends/shm_backend.h"

#include "ddprun/base/clock.h"
#include "ddprun/comm/backends/backend_support.h"

namespace ddprun {

namespace {

/// To wake the queue's thread costs more than to reduce so much: two switches of the thread that
/// computes, and as many of the peer's.
constexpr std::int64_t kBatchBytes = std::int64_t{1} << 20;

/// Where an all-gather puts each rank's input.
std::vector<std::byte*> gathered_places(const CollectiveArguments& arguments, int ranks) {
  const std::vector<at::Tensor>& outputs = arguments.outputs;
  std::vector<std::byte*> places;
  for (int rank = 0; rank < ranks; ++rank) {
    places.push_back(outputs.size() == 1 ? data_of(outputs[0]) + rank * bytes_of(arguments.input)
                                         : data_of(outputs[rank]));
  }
  return places;
}

void run(ShmCollectives& shm, const CollectiveArguments& arguments, ReduceOp op) {
  const bool at_once = arguments.await == Await::next;  // begins with the call: saves a clock
  if (arguments.began_ns && !at_once) *arguments.began_ns = now_ns();
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

c10::intrusive_ptr<c10d::Work> ShmBackend::start(CollectiveArguments arguments) {
  const ReduceOp op = checked_op(arguments, BackendKind::shm, getSize());
  if (arguments.await == Await::next) return run_now(arguments, op);
  const Await await = when(arguments);
  std::vector<at::Tensor> results = arguments.outputs;
  return queue_.submit(
      std::move(results),
      [arguments = std::move(arguments), op](ShmCollectives& shm) { run(shm, arguments, op); },
      await);
}

c10::intrusive_ptr<c10d::Work> ShmBackend::run_now(const CollectiveArguments& arguments,
                                                   ReduceOp op) {
  try {
    queue_.run([&](ShmCollectives& shm) { run(shm, arguments, op); });
    return {};
  } catch (const std::exception&) {
    return failed_work(std::current_exception());
  }
}

Await ShmBackend::when(const CollectiveArguments& arguments) {
  if (arguments.await == Await::later) return Await::later;
  left_bytes_ += arguments.bytes();
  if (left_bytes_ < kBatchBytes) return Await::batch;
  left_bytes_ = 0;
  return Await::later;
}

at::Tensor ShmBackend::allocateTensor(long elements, at::TensorOptions options) {
  return queue_.allocate(elements, options);
}

}  // namespace ddprun
