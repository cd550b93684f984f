// The gloo backend: PyTorch's ProcessGroupGloo with a bandwidth-optimal reduce-scatter and an end
// that cannot hang.
#include "ddprun/comm/backends/gloo_backend.h"

#include <ATen/Functions.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ScopeExit.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "ddprun/base/failure.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/memory/private_memory.h"

namespace ddprun {

namespace {

/// PyTorch's flight recorder, on by default, costs time in every collective. It inserts into a
/// global map without a lock, which ranks that are threads of one process do not survive. It reads
/// its size once, at the first collective. So the size is set here, while the library is loaded and
/// no thread runs. A size that the user has set stands.
[[maybe_unused]] const int kFlightRecorderOff =
    ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

/// As long as what it returns lives, SIGPIPE does not reach this thread. It never reaches a thread
/// that this thread starts meanwhile. Writes to a closed connection fail with EPIPE instead. gloo
/// writes without MSG_NOSIGNAL, and the signal's default action would end the process before it can
/// say which rank died.
[[nodiscard]] auto block_sigpipe() {
  sigset_t pending, sigpipe, before;
  ::sigpending(&pending);
  ::sigemptyset(&sigpipe);
  ::sigaddset(&sigpipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
  const bool was_pending = ::sigismember(&pending, SIGPIPE) == 1;
  return c10::make_scope_exit([sigpipe, before, was_pending] {
    const timespec at_once{};
    if (!was_pending) ::sigtimedwait(&sigpipe, nullptr, &at_once);  // what came meanwhile
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  });
}

/// As long as what it returns lives, threads that this thread starts are scheduled as SCHED_BATCH,
/// and stay so: when one is woken, it waits for the core until who runs there sleeps or has used up
/// its slice. gloo needs that where its threads share one core. Its event thread, woken by the
/// other thread's write, would take the core from it, and then spin until its slice of some
/// milliseconds ends, because the connection's lock is still held (gloo, Pair::handleEvents). A
/// real-time policy that the user has chosen stands.
[[nodiscard]] auto start_batch_threads() {
  int policy = SCHED_OTHER;
  sched_param before{};
  ::pthread_getschedparam(::pthread_self(), &policy, &before);
  const auto set = [policy, before](int to) {
    if (policy == SCHED_OTHER) ::pthread_setschedparam(::pthread_self(), to, &before);
  };
  set(SCHED_BATCH);
  return c10::make_scope_exit([set, policy] { set(policy); });
}

/// gloo says in words alone whether a connection was lost or a wait too long. Throws what tells
/// that by its type; what is c10d's or ours goes on as it is. Call it in the handler of `failure`.
[[noreturn]] void throw_typed(const std::exception& failure) {
  if (dynamic_cast<const c10::Error*>(&failure) != nullptr ||
      dynamic_cast<const Error*>(&failure) != nullptr) {
    throw;
  }
  const std::string words = first_line_of(failure);
  const auto says = [&words](const char* part) { return words.find(part) != std::string::npos; };
  if (says("imed out") || says("imeout")) throw TimeoutError(cause(words));
  if (says("by peer") || says("Broken pipe") || says("onnection closed") || says("ailed to recv")) {
    throw PeerGoneError(cause(words));
  }
  throw;
}

/// output = op over the rows of `parts` (ranks, elements).
void reduce_rows(at::Tensor output, const at::Tensor& parts, c10d::ReduceOp::RedOpType op) {
  if (op == c10d::ReduceOp::MAX) {
    at::amax_out(output, parts, 0);
  } else {
    at::sum_out(output, parts, 0);
    if (op == c10d::ReduceOp::AVG) output.div_(parts.size(0));
  }
}

/// PyTorch's group, with an end that cannot hang.
class Connections final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  /// gloo gives a connection five times its time limit. So it is told a fifth of that of `options`,
  /// but enough for the peers' addresses to come, until all are connected.
  __attribute__((no_sanitize("vptr"))) static c10::intrusive_ptr<Connections> made(
      const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
      const c10::intrusive_ptr<Options>& options) {
    constexpr int kTimesAsLong = 5;
    constexpr std::chrono::milliseconds kEnough{3000};
    const auto limit = options->timeout;
    options->timeout = std::max(limit / kTimesAsLong, std::min(limit, kEnough));
    const int threads = std::exchange(options->threads, 0);
    auto connected = c10::make_intrusive<Connections>(store, rank, size, options);
    options->timeout = limit;
    options->threads = threads;
    connected->start_threads(threads);
    for (const auto& context : connected->contexts_) context->setTimeout(limit);
    return connected;
  }

  /// The base class waits for what is queued. After a peer's death that could take until the
  /// timeout; without connections it fails at once. After a barrier nothing is queued.
  /// The vptr is not checked: the headers' gloo::Context has one, and the one inside libtorch_cpu
  /// has none. Its functions may be called, but its members must not be touched.
  __attribute__((no_sanitize("vptr"))) ~Connections() override {
    const auto no_sigpipe = block_sigpipe();
    for (const auto& context : contexts_) context->closeConnections();
    for (int peer = 0; peer < getSize(); ++peer) {
      if (peer != getRank()) fail_posted(peer);
    }
  }

 private:
  /// The base class is told to start none: where the system has no thread left for one of its own,
  /// it hangs.
  void start_threads(int count) {
    workInProgress_.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) threads_.emplace_back(&Connections::runLoop, this, i);
  }

  /// A closed connection refuses new messages, but those who already wait on it do not learn of it
  /// (gloo's Pair::close) before it has refused one. So one more message is tried over each context
  /// (tag modulo their number).
  void fail_posted(int peer) {
    std::vector<at::Tensor> nothing = {at::zeros({1})};
    for (std::size_t tag = 0; tag < contexts_.size(); ++tag) {
      try {
        send(nothing, peer, static_cast<int>(tag));
      } catch (const std::exception&) {  // that is the point
      }
    }
  }
};

class GlooBackend final : public CollectiveBackend {
 public:
  GlooBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>& options) try
      : CollectiveBackend(rank, size, "gloo", options->timeout),
        gloo_(Connections::made(store, rank, size, options)) {
  } catch (const std::exception& failure) {
    throw_typed(failure);
  }

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override {
    const FuturePtr done = arguments.kind == CollectiveKind::reduce_scatter
                               ? reduce_scatter(arguments)
                           : arguments.kind == CollectiveKind::all_gather
                               ? all_gather(arguments)
                               : start_on(*gloo_, std::move(arguments))->getFuture();
    const auto typed = [](c10::ivalue::Future& ended) {
      try {
        return ended.value();
      } catch (const std::exception& failure) {
        throw_typed(failure);
      }
    };
    return c10::make_intrusive<FutureWork>(done->then(typed, done->elementType()));
  }

  at::Tensor allocateTensor(long elements, at::TensorOptions options) override {
    return allocate_private(elements, options);
  }

 private:
  /// ProcessGroupGloo all-reduces a copy of the whole input, which puts 2(n-1)/n of its bytes on
  /// the wire. Here every rank sends each other rank that rank's slice, (n-1)/n of the bytes. It
  /// reduces what it gets on gloo's thread, in rank order.
  FuturePtr reduce_scatter(const CollectiveArguments& arguments) {
    const auto op = arguments.op.op_;
    TORCH_CHECK(op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::MAX,
                "reduce-scatter over gloo does sum, avg and max");
    const at::Tensor output = arguments.outputs[0].view({-1});
    at::Tensor parts = at::empty({getSize(), output.numel()}, arguments.input.options());
    at::Tensor slices = arguments.input.view({getSize(), output.numel()});
    std::vector<std::int64_t> equal_slices;
    const FuturePtr exchanged =
        gloo_->alltoall_base(parts, slices, equal_slices, equal_slices)->getFuture();
    const auto reduce = [output, parts, op](c10::ivalue::Future& done) {
      done.value();  // throws what went wrong
      reduce_rows(output, parts, op);
      return c10::IValue(std::vector<at::Tensor>{output});
    };
    return exchanged->then(reduce, exchanged->elementType());
  }

  /// ProcessGroupGloo gathers into a buffer of its own and copies from there. Here every rank
  /// broadcasts its slice in place: the same bytes on the wire, several slices at a time.
  FuturePtr all_gather(const CollectiveArguments& arguments) {
    const at::Tensor& input = arguments.input;
    std::vector<at::Tensor> slices = arguments.outputs;
    if (slices.size() == 1) slices = slices[0].view({getSize(), input.numel()}).unbind();
    const at::Tensor& mine = slices.at(getRank());
    if (mine.data_ptr() != input.data_ptr()) mine.copy_(input.view(mine.sizes()));
    const c10::TypePtr tensors = c10::ListType::create(c10::TensorType::get());
    c10::List<FuturePtr> sent(c10::FutureType::create(tensors));
    for (int root = 0; root < getSize(); ++root) {
      std::vector<at::Tensor> slice = {slices[root]};
      sent.push_back(gloo_->broadcast(slice, {.rootRank = root})->getFuture());
    }
    const auto gathered = [slices, sent](c10::ivalue::Future& all) {
      all.value();  // throws what went wrong
      // All are done, but LibTorch counts them by an atomic that ThreadSanitizer does not see.
      for (const FuturePtr& each : sent) each->wait();
      return c10::IValue(slices);
    };
    return c10::collectAll(sent)->then(gathered, tensors);
  }

  const c10::intrusive_ptr<Connections> gloo_;
};

}  // namespace

std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::milliseconds(
      std::max<std::int64_t>(1, static_cast<std::int64_t>(seconds * 1000.0)));
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    const std::string& where,
                                                    const std::string& address,
                                                    const CommConfig& config) {
  const auto no_sigpipe = block_sigpipe();  // for gloo's threads, which start here
  const auto batch_threads = start_batch_threads();
  auto options = c10d::ProcessGroupGloo::Options::create(to_milliseconds(config.timeout_s));
  options->threads = static_cast<int>(config.gloo_threads);
  try {
    if (config.interface.empty()) {
      options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname(address)};
    } else {
      options->devices = mapped(split_at(config.interface, ','), [](const std::string& each) {
        return c10d::ProcessGroupGloo::createDeviceForInterface(each);
      });
    }
  } catch (const std::exception& failure) {
    throw_comm_error(
        failure,
        {.what = "gloo cannot listen on this host's network",
         .where = where + (config.interface.empty() ? ", address " + address
                                                    : ", interface " + config.interface),
         .expected = "an address of this host that the other ranks can reach",
         .hint = "`interface` under `world:` chooses, or else GLOO_SOCKET_IFNAME; `ip -br address` "
                 "lists what is there"});
  }
  try {
    return c10::make_intrusive<GlooBackend>(store, rank, world_size, options);
  } catch (const std::exception& failure) {
    throw_comm_error(failure, {.what = "gloo could not connect this rank to the others",
                               .where = where,
                               .expected = "connections from and to every rank"});
  }
}

}  // namespace ddprun
