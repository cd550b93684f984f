// The nccl backend: PyTorch's own, with an exact mean, registered buffers, and errors that end the
// run instead of the process.
#include "ddprun/cuda/nccl_backend.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "ddprun/base/failure.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/cuda/nccl_memory.h"

namespace ddprun::cuda {

namespace {

/// ProcessGroupNCCL's constructor reads these variables. They are set when this library is loaded,
/// before any thread starts. What the user has set stands.
[[maybe_unused]] const int kWatchdogSettings = [] {
  const auto unless_set = [](const char* name, const char* value) {
    return ::setenv(name, value, /*overwrite=*/0);
  };
  // When a collective fails or is late, the watchdog aborts the communicator. Kernels that wait for
  // a peer then end, and whoever waits for the GPU goes on. The watchdog neither throws nor ends
  // the process (CleanUpOnly). CudaDevice::wait_for then asks for the error.
  unless_set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2");
  // By default it waits a minute before it aborts, for a dump of the flight recorder ...
  unless_set("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0");
  // ... after which the monitor thread would end the process.
  unless_set("TORCH_NCCL_DUMP_ON_TIMEOUT", "0");
  // By default a CUDA error that the watchdog meets first ends the process, without this rank's
  // message.
  unless_set("TORCH_NCCL_RETHROW_CUDA_ERRORS", "0");
  // No flight recorder: it walks the stack for each collective, and nothing dumps it.
  if (::getenv("TORCH_FR_BUFFER_SIZE") == nullptr) unless_set("TORCH_NCCL_TRACE_BUFFER_SIZE", "0");
  return 0;
}();

/// How long ncclCommAbort and the group's threads may take to end; they take milliseconds.
constexpr auto kEndLimit = std::chrono::seconds(30);

std::string words_of(c10d::ErrorType error) {
  switch (error) {
    case c10d::ErrorType::SUCCESS:
      return {};
    case c10d::ErrorType::TIMEOUT:
      return "NCCL: timed out";
    case c10d::ErrorType::COMM_ERROR:
      return "NCCL: communication error";
    case c10d::ErrorType::REMOTE_ERROR:
      return "NCCL: error on another rank";
  }
  return "NCCL: unknown error";
}

/// Makes NCCL write its view of the host as long as this object lives. All ranks of a host must ask
/// for it, because they gather it together; rank 0 writes.
class TopologyDump {
 public:
  TopologyDump() {
    if (::getenv(kVariable) != nullptr) return;  // the user has it already
    file_ =
        std::filesystem::temp_directory_path() / fmt::format("ddprun-topology-{}.xml", ::getpid());
    ::setenv(kVariable, file_.c_str(), 1);
  }
  ~TopologyDump() {
    if (file_.empty()) return;
    ::unsetenv(kVariable);
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  TopologyDump(const TopologyDump&) = delete;
  TopologyDump& operator=(const TopologyDump&) = delete;

  std::string read() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  static constexpr const char* kVariable = "NCCL_TOPO_DUMP_FILE";
  std::filesystem::path file_;
};

class NcclBackend final : public c10d::ProcessGroupNCCL, public NcclState {
 public:
  NcclBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
              c10::intrusive_ptr<Options> options, c10::Device device)
      : ProcessGroupNCCL(store, rank, world_size, std::move(options)), device_(device) {
    setBoundDeviceId(device);  // barriers take it, and collectives of other devices are refused
  }

  /// Ends the communicator at once if it did not end in order, because after a peer's death nothing
  /// can be waited for.
  ~NcclBackend() override {
    if (!ended_) abort_within_limit();
  }

  /// This rank's part of ncclCommInitRank.
  void connect_now(const TopologyDump& dump) {
    eagerConnectSingleDevice(device_);
    topology_ = dump.read();
    const c10::OptionalDeviceGuard guard(device_);  // getCommPtr() tells by the current device
    memory_ = std::make_unique<NcclMemory>(reinterpret_cast<ncclComm_t>(getCommPtr()), device_);
  }

  /// Ends in order: what is still on its way to other ranks gets there. NCCL's proxies send after
  /// the kernels are done.
  void shutdown() override {
    check();
    memory_->unregister();
    ProcessGroupNCCL::shutdown();
    ended_ = true;
  }

  /// A communicator that the watchdog has given up takes no more collectives.
  void check() override {
    const c10d::ErrorType error = getError();
    if (error == c10d::ErrorType::SUCCESS) return;
    const ErrorText text = collective_failed(device_, words_of(error));
    if (error == c10d::ErrorType::TIMEOUT) throw TimeoutError(text);
    throw CommError(text);
  }
  std::string buffers() const override {
    return getSize() == 1 ? "not registered: one rank has nobody to talk to" : memory_->words();
  }
  const std::string& topology() const override { return topology_; }

  /// NCCL's own mean multiplies by 1/n before it adds up, which rounds unless n is a power of two.
  /// For other n this takes the sum, and then divides once on the stream that follows it.
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    check();
    if (!divides_itself(options.reduceOp)) return ProcessGroupNCCL::allreduce(tensors, options);
    c10d::AllreduceOptions sum = options;
    sum.reduceOp = c10d::ReduceOp::SUM;
    return divided(ProcessGroupNCCL::allreduce(tensors, sum), tensors.at(0));
  }

  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    check();
    if (!divides_itself(options.reduceOp)) {
      return ProcessGroupNCCL::_reduce_scatter_base(output, input, options);
    }
    c10d::ReduceScatterOptions sum = options;
    sum.reduceOp = c10d::ReduceOp::SUM;
    return divided(ProcessGroupNCCL::_reduce_scatter_base(output, input, sum), output);
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    check();
    return ProcessGroupNCCL::broadcast(tensors, options);
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    check();
    return ProcessGroupNCCL::_allgather_base(output, input, options);
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    check();
    return ProcessGroupNCCL::barrier(options);
  }

  at::Tensor allocateTensor(long elements, at::TensorOptions options) override {
    if (getSize() == 1) return at::zeros({elements}, options.device(device_));
    check();
    return memory_->allocate(elements, options);
  }

 private:
  /// ncclCommAbort ends the kernels and returns. If it does not return, this process must not wait
  /// for it.
  void abort_within_limit() {
    auto aborted = std::make_shared<std::promise<void>>();
    const auto done = aborted->get_future();
    std::thread([this, aborted] {
      try {
        abort();
      } catch (const std::exception& failure) {
        std::fprintf(stderr, "NCCL could not abort: %s\n", failure.what());
      }
      aborted->set_value();
    }).detach();
    if (done.wait_for(kEndLimit) == std::future_status::ready) return;
    std::fprintf(stderr, "rank %d: NCCL does not end on %s; the process ends instead\n", getRank(),
                 device_.str().c_str());
    ::_exit(1);
  }

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

  const c10::Device device_;
  bool ended_ = false;
  std::string topology_;
  std::unique_ptr<NcclMemory> memory_;
};

/// "unhandled cuda error ...; Cuda failure 2 'out of memory'": the informative part of PyTorch's
/// text about a failure of NCCL.
std::string short_words(const std::exception& failure) {
  std::string text = message_of(failure);
  if (const auto place = text.find(", ");
      text.starts_with("NCCL error in: ") && place != std::string::npos) {
    text.erase(0, place + 2);
  }
  std::string words = text.substr(0, text.find('\n'));
  constexpr std::string_view kLast = "Last error:\n";
  if (const auto last = text.find(kLast); last != std::string::npos) {
    const std::string detail = text.substr(last + kLast.size());
    words += "; " + detail.substr(0, detail.find('\n'));
  }
  return words;
}

/// Connects on a thread of its own: ncclCommInitRank waits without limit for ranks that are gone.
void connect_within(const c10::intrusive_ptr<NcclBackend>& backend,
                    const std::shared_ptr<TopologyDump>& dump, std::chrono::milliseconds limit) {
  auto connected = std::make_shared<std::promise<void>>();
  auto done = connected->get_future();
  std::thread([backend = c10::intrusive_ptr<NcclBackend>(backend),
               dump = std::shared_ptr<TopologyDump>(dump), connected]() mutable {
    try {
      backend->connect_now(*dump);
      dump.reset();
      backend.reset();  // the last owner ends the group, which must not be this thread
      connected->set_value();
    } catch (...) {
      dump.reset();
      backend.reset();
      connected->set_exception(std::current_exception());
    }
  }).detach();
  if (done.wait_for(limit) != std::future_status::ready) {
    throw TimeoutError(cause(fmt::format("no connection within {:g} s: timed out",
                                         std::chrono::duration<double>(limit).count())));
  }
  done.get();
}

}  // namespace

ErrorText collective_failed(c10::Device device, std::string got) {
  return {.what = "a collective on the GPU cannot end",
          .where = device.str(),
          .got = std::move(got),
          .expected = "the same call on every rank, in time",
          .hint =
              "a rank is missing, hangs, or is slower than the limit `timeout_s` under `world:` "
              "allows"};
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size, c10::Device device,
                                                    std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  try {
    const auto dump = std::make_shared<TopologyDump>();  // before the group's threads start
    auto backend =
        c10::make_intrusive<NcclBackend>(store, rank, world_size, std::move(options), device);
    connect_within(backend, dump, timeout);
    return backend;
  } catch (const std::exception& failure) {
    const std::string words = short_words(failure);
    if (says_out_of_memory(failure)) C10_THROW_ERROR(OutOfMemoryError, "NCCL: " + words);
    throw_comm_error(failure,
                     {.what = "NCCL could not connect this rank to the others",
                      .where = fmt::format("rank {} of {}, {}", rank, world_size, device.str()),
                      .got = words,
                      .expected = "a connection to every rank within `timeout_s` under `world:`"});
  }
}

}  // namespace ddprun::cuda
