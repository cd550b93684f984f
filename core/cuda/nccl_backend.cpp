// The nccl backend: PyTorch's own, with an exact mean, and errors that end the run instead of the
// process.
#include <ATen/Functions.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "ddprun/comm/future_work.h"
#include "ddprun/comm/gloo_backend.h"
#include "ddprun/comm/recording_backend.h"
#include "ddprun/config/experiment.h"
#include "ddprun/cuda/cuda_device.h"

namespace ddprun::cuda {

namespace {

/// By default PyTorch's watchdog ends the process when a collective fails or times out, without the
/// rank's own message. Here whoever waits asks the backend (CudaDevice::wait_for) and throws
/// CommError. Read by ProcessGroupNCCL's constructor; what the user has set stands.
[[maybe_unused]] const int kWatchdogLeavesTheProcess =
    ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/0);

class NcclBackend final : public c10d::ProcessGroupNCCL {
 public:
  using ProcessGroupNCCL::ProcessGroupNCCL;

  /// Ends the communicators at once. After a barrier nothing is under way; after a peer's death
  /// nothing can be waited for.
  ~NcclBackend() override { abort(); }

  /// NCCL's own mean multiplies by 1/n before it adds up, which rounds unless n is a power of two.
  /// Else: the sum, then one division on the stream that follows it.
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    if (!divides_itself(options.reduceOp)) return ProcessGroupNCCL::allreduce(tensors, options);
    c10d::AllreduceOptions sum = options;
    sum.reduceOp = c10d::ReduceOp::SUM;
    return divided(ProcessGroupNCCL::allreduce(tensors, sum), tensors.at(0));
  }

  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    if (!divides_itself(options.reduceOp)) {
      return ProcessGroupNCCL::_reduce_scatter_base(output, input, options);
    }
    c10d::ReduceScatterOptions sum = options;
    sum.reduceOp = c10d::ReduceOp::SUM;
    return divided(ProcessGroupNCCL::_reduce_scatter_base(output, input, sum), output);
  }

  at::Tensor allocateTensor(long elements, at::TensorOptions options) override {
    return at::zeros({elements}, options.device(getBoundDeviceId()));
  }

 private:
  bool divides_itself(const c10d::ReduceOp& op) const {
    const bool power_of_two = (getSize() & (getSize() - 1)) == 0;
    return op == c10d::ReduceOp::AVG && !power_of_two;
  }

  c10::intrusive_ptr<c10d::Work> divided(const c10::intrusive_ptr<c10d::Work>& sum,
                                         const at::Tensor& tensor) {
    const auto divide = [tensor, size = getSize()](c10::ivalue::Future& arrived) {
      arrived.value();  // throws what went wrong
      at::Tensor(tensor).div_(size);
      return c10::IValue(std::vector<at::Tensor>{tensor});
    };
    const auto future = sum->getFuture();
    return c10::make_intrusive<FutureWork>(future->then(divide, future->elementType()));
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, c10::Device device,
                                                    const CommConfig& config) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = to_milliseconds(config.timeout_s);
  try {
    auto backend = c10::make_intrusive<NcclBackend>(store, rank, world_size, options);
    backend->setBoundDeviceId(device);
    backend->eagerConnectSingleDevice(device);  // a rank that cannot connect says so here
    return backend;
  } catch (const std::exception& failure) {
    throw comm_error(
        failure, "NCCL could not connect this rank to the others",
        "rank " + std::to_string(rank) + " of " + std::to_string(world_size) + ", " + device.str());
  }
}

}  // namespace ddprun::cuda
