// What each collective does within the host and between hosts.
#include "ddprun/comm/backends/hierarchical_backend.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "ddprun/base/failure.h"
#include "ddprun/comm/backends/backend_support.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/comm/store/all_gather_object.h"
#include "ddprun/comm/store/comm_failure.h"

namespace ddprun {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// A flat tensor cut into `ranks` slices of equal size. The rest, fewer elements than ranks, goes
/// with the last slice.
class Slices {
 public:
  Slices(const at::Tensor& tensor, int ranks)
      : tensor_(tensor.view({-1})), ranks_(ranks), part_(tensor.numel() / ranks) {}

  /// The part that `rank` reduces over the hosts.
  at::Tensor of(int rank) const {
    return tensor_.narrow(0, part_ * rank, rank + 1 < ranks_ ? part_ : part_ + rest());
  }

  /// Leaves the host's sum (or maximum) of slice `me` with rank `me`.
  void reduce(ShmCollectives& shm, int me, ReduceOp op) const {
    const at::ScalarType type = tensor_.scalar_type();
    if (part_ > 0) shm.reduce_scatter(at(me * part_), at(0), bytes(part_), type, op);
    if (rest() > 0) shm.all_reduce(at(ranks_ * part_), bytes(rest()), type, op);
  }

  /// Gives every rank all slices.
  void gather(ShmCollectives& shm, int me) const {
    std::vector<std::byte*> places;
    for (int rank = 0; rank < ranks_; ++rank) places.push_back(at(rank * part_));
    if (part_ > 0) shm.all_gather(places, places[me], bytes(part_));
    if (rest() > 0) shm.broadcast(at(ranks_ * part_), bytes(rest()), ranks_ - 1);
  }

 private:
  std::int64_t rest() const { return tensor_.numel() - part_ * ranks_; }
  std::int64_t bytes(std::int64_t elements) const {
    return elements * static_cast<std::int64_t>(tensor_.element_size());
  }
  std::byte* at(std::int64_t element) const { return data_of(tensor_) + bytes(element); }

  at::Tensor tensor_;
  int ranks_;
  std::int64_t part_;
};

/// The operation of the stages before the sum of all ranks is known: avg divides only after that.
ReduceOp undivided(ReduceOp op) { return op == ReduceOp::max ? op : ReduceOp::sum; }

}  // namespace

HierarchicalBackend::HierarchicalBackend(const c10::intrusive_ptr<c10d::Store>& store,
                                         const HostPlace& place, const std::string& address,
                                         const CommConfig& config)
    : CollectiveBackend(place.rank(), place.size(), "hierarchical",
                        to_milliseconds(config.timeout_s)),
      place_(place) {
  const auto timeout = to_milliseconds(config.timeout_s);
  const auto part = [&store](const char* name, int number) {
    return c10::make_intrusive<c10d::PrefixStore>(fmt::format("{}/{}", name, number), store);
  };
  ShmPlace local{place.local_rank, place.local_size};
  for (int rank = 0; rank < place.local_size; ++rank) {
    local.members.push_back(place.rank_of(place.host, rank));
  }
  std::string refusal;
  try {
    first_ = std::make_unique<ShmQueue>(part("first", place.host), local, timeout);
    last_ =
        std::make_unique<ShmQueue>(part("last", place.host), local, timeout, first_->allocations());
  } catch (const ShmRefused& refused) {
    refusal = refused.what();
  }
  for (const auto& other :
       all_gather_object(*store, "refusals", place.rank(), place.size(), refusal, timeout)) {
    if (!other.empty()) throw ShmRefused(other);
  }
  network_ =
      make_gloo_backend(part("network", place.local_rank), place.host, place.hosts,
                        fmt::format("rank {} of {}", place.rank(), place.size()), address, config);
}

HierarchicalBackend::~HierarchicalBackend() {
  first_.reset();    // nothing new goes to the network,
  network_.reset();  // what waits for it fails,
  last_.reset();     // so this one's thread ends
}

void HierarchicalBackend::wait_for_network(const Works& sent) const {
  try {
    for (const auto& work : sent) work->wait();
  } catch (const std::exception& failure) {
    std::vector<int> peers;
    for (int host = 0; host < place_.hosts; ++host) {
      if (host != place_.host) peers.push_back(place_.rank_of(host, place_.local_rank));
    }
    throw_same_kind(failure, cause(fmt::format("between hosts, with rank {}: {}",
                                               fmt::join(peers, " or "), first_line_of(failure))));
  }
}

WorkPtr HierarchicalBackend::submit(std::vector<at::Tensor> results,
                                    std::function<void(ShmCollectives&, Works& sent)> first,
                                    ShmQueue::Run last) {
  const auto sent = std::make_shared<Works>();
  const WorkPtr begun = first_->submit(
      {}, [sent, first = std::move(first)](ShmCollectives& shm) { first(shm, *sent); });
  return last_->submit(std::move(results),
                       [this, sent, begun, last = std::move(last)](ShmCollectives& shm) {
                         begun->wait();
                         wait_for_network(*sent);
                         last(shm);
                       });
}

WorkPtr HierarchicalBackend::start(CollectiveArguments arguments) {
  const ReduceOp op = checked_op(arguments, BackendKind::hierarchical, getSize());
  switch (arguments.kind) {
    case CollectiveKind::all_reduce:
      return all_reduce(arguments, op);
    case CollectiveKind::reduce_scatter:
      return reduce_scatter(arguments, op);
    case CollectiveKind::all_gather:
      return all_gather(arguments);
    case CollectiveKind::broadcast:
      return send_from_root(arguments);
    case CollectiveKind::barrier:
      break;
  }
  return meet();
}

WorkPtr HierarchicalBackend::all_reduce(const CollectiveArguments& arguments, ReduceOp op) {
  const int me = place_.local_rank;
  std::vector<Slices> parts;
  for (const auto& tensor : arguments.outputs) parts.emplace_back(tensor, place_.local_size);
  return submit(
      arguments.outputs,
      [this, parts, me, op](ShmCollectives& shm, Works& sent) {
        for (const Slices& slices : parts) {
          slices.reduce(shm, me, undivided(op));
          const at::Tensor mine = slices.of(me);
          if (mine.numel() == 0) continue;
          sent.push_back(start_on(*network_, {.kind = CollectiveKind::all_reduce,
                                              .outputs = {mine},
                                              .op = to_c10d(undivided(op))}));
        }
      },
      [parts, me, op, ranks = getSize()](ShmCollectives& shm) {
        for (const Slices& slices : parts) {
          if (op == ReduceOp::avg) slices.of(me).div_(ranks);
          slices.gather(shm, me);
        }
      });
}

WorkPtr HierarchicalBackend::reduce_scatter(const CollectiveArguments& arguments, ReduceOp op) {
  const at::Tensor& output = arguments.outputs[0];
  const auto first = [this, output, input = arguments.input, op](ShmCollectives& shm, Works& sent) {
    // The host's sums of the slices that belong to this local rank, one for each host.
    const at::Tensor sums = at::empty({place_.hosts, output.numel()}, input.options());
    const std::int64_t bytes = bytes_of(output);
    for (int host = 0; host < place_.hosts; ++host) {
      shm.reduce_scatter(data_of(sums) + host * bytes,
                         data_of(input) + place_.rank_of(host, 0) * bytes, bytes,
                         input.scalar_type(), undivided(op));
    }
    sent.push_back(start_on(*network_, {.kind = CollectiveKind::reduce_scatter,
                                        .outputs = {output},
                                        .input = sums,
                                        .op = to_c10d(undivided(op))}));
  };
  const auto last = [output, op, ranks = getSize()](ShmCollectives&) {
    if (op == ReduceOp::avg) at::Tensor(output).div_(ranks);
  };
  return submit({output}, first, last);
}

WorkPtr HierarchicalBackend::all_gather(const CollectiveArguments& arguments) {
  const at::Tensor& input = arguments.input;
  std::vector<at::Tensor> outputs = arguments.outputs;  // one a rank
  if (outputs.size() == 1) outputs = outputs[0].view({getSize(), input.numel()}).unbind();
  // This rank's tensor has come to the same local rank of every host; from there to its neighbours.
  const auto gather = [this, outputs](ShmCollectives& shm, int host) {
    std::vector<std::byte*> places;
    for (int local = 0; local < place_.local_size; ++local) {
      places.push_back(data_of(outputs[place_.rank_of(host, local)]));
    }
    const at::Tensor& mine = outputs[place_.rank_of(host, place_.local_rank)];
    shm.all_gather(places, data_of(mine), bytes_of(mine));
  };
  const auto first = [this, outputs, input, gather](ShmCollectives& shm, Works& sent) {
    std::vector<at::Tensor> places;
    for (int host = 0; host < place_.hosts; ++host) {
      places.push_back(outputs[place_.rank_of(host, place_.local_rank)]);
    }
    sent.push_back(start_on(
        *network_, {.kind = CollectiveKind::all_gather, .outputs = places, .input = input}));
    gather(shm, place_.host);
  };
  const auto last = [this, gather](ShmCollectives& shm) {
    for (int host = 0; host < place_.hosts; ++host) {
      if (host != place_.host) gather(shm, host);
    }
  };
  return submit(arguments.outputs, first, last);
}

WorkPtr HierarchicalBackend::send_from_root(const CollectiveArguments& arguments) {
  const at::Tensor& tensor = arguments.outputs[0];
  const auto root = static_cast<int>(arguments.root);
  const int root_host = root / place_.local_size;
  const int local_root = root % place_.local_size;
  const bool from_here = place_.host == root_host;
  const auto share = [tensor, local_root](ShmCollectives& shm) {
    shm.broadcast(data_of(tensor), bytes_of(tensor), local_root);
  };
  const auto first = [=, this](ShmCollectives& shm, Works& sent) {
    if (place_.local_rank == local_root) {
      sent.push_back(start_on(
          *network_, {.kind = CollectiveKind::broadcast, .outputs = {tensor}, .root = root_host}));
    }
    if (from_here) share(shm);
  };
  const auto last = [=](ShmCollectives& shm) {
    if (!from_here) share(shm);
  };
  return submit({tensor}, first, last);
}

WorkPtr HierarchicalBackend::meet() {
  const auto first = [this](ShmCollectives& shm, Works& sent) {
    shm.barrier();
    if (place_.local_rank == 0) sent.push_back(network_->barrier());
  };
  return submit({}, first, [](ShmCollectives& shm) { shm.barrier(); });
}

at::Tensor HierarchicalBackend::allocateTensor(long elements, at::TensorOptions options) {
  return first_->allocate(elements, options);
}

}  // namespace ddprun
