// What each collective does within the host and between hosts.
#include "ddprun/comm/backends/hierarchical_backend.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "ddprun/base/failure.h"
#include "ddprun/comm/backends/collective_arguments.h"
#include "ddprun/comm/backends/gloo_backend.h"
#include "ddprun/comm/group/recording_backend.h"
#include "ddprun/comm/store/all_gather_object.h"

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

c10d::ReduceOp::RedOpType undivided_c10d(ReduceOp op) {
  return op == ReduceOp::max ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
}

}  // namespace

HierarchicalBackend::HierarchicalBackend(const c10::intrusive_ptr<c10d::Store>& store,
                                         const HostPlace& place, const std::string& address,
                                         const CommConfig& config)
    : Backend(place.rank(), place.size()),
      place_(place),
      options_(c10::make_intrusive<Options>("hierarchical", to_milliseconds(config.timeout_s))) {
  const auto timeout = options_->timeout;
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
    throw std::runtime_error(fmt::format("between hosts, with rank {}: {}",
                                         fmt::join(peers, " or "), first_line_of(failure)));
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

WorkPtr HierarchicalBackend::all_reduce(const std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOp& op) {
  struct Part {
    Slices slices;
    at::Tensor mine;
    ReduceOp op;
  };
  std::vector<Part> parts;
  for (const auto& tensor : tensors) {
    check_tensor(tensor);
    const Slices slices(tensor, place_.local_size);
    parts.push_back({slices, slices.of(place_.local_rank),
                     checked_op(op, tensor.scalar_type(), BackendKind::hierarchical)});
  }
  const int me = place_.local_rank;
  return submit(
      tensors,
      [this, parts, me](ShmCollectives& shm, Works& sent) {
        for (const auto& part : parts) {
          part.slices.reduce(shm, me, undivided(part.op));
          if (part.mine.numel() == 0) continue;
          std::vector<at::Tensor> mine = {part.mine};
          c10d::AllreduceOptions options;
          options.reduceOp = undivided_c10d(part.op);
          sent.push_back(network_->allreduce(mine, options));
        }
      },
      [parts, me, ranks = getSize()](ShmCollectives& shm) {
        for (const auto& part : parts) {
          if (part.op == ReduceOp::avg) part.mine.div_(ranks);
          part.slices.gather(shm, me);
        }
      });
}

WorkPtr HierarchicalBackend::allreduce(std::vector<at::Tensor>& tensors,
                                       const c10d::AllreduceOptions& options) {
  return all_reduce({only(tensors)}, options.reduceOp);
}

WorkPtr HierarchicalBackend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                 const c10d::AllreduceCoalescedOptions& options) {
  return all_reduce(tensors, options.reduceOp);
}

WorkPtr HierarchicalBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                  const c10d::ReduceScatterOptions& options) {
  check_reduce_scatter(output, input, getSize());
  const ReduceOp op = checked_op(options.reduceOp, input.scalar_type(), BackendKind::hierarchical);
  const auto first = [this, output, input, op](ShmCollectives& shm, Works& sent) {
    // The host's sums of the slices that belong to this local rank, one for each host.
    at::Tensor sums = at::empty({place_.hosts, output.numel()}, input.options());
    const std::int64_t bytes = bytes_of(output);
    for (int host = 0; host < place_.hosts; ++host) {
      shm.reduce_scatter(data_of(sums) + host * bytes,
                         data_of(input) + place_.rank_of(host, 0) * bytes, bytes,
                         input.scalar_type(), undivided(op));
    }
    at::Tensor mine = output;
    c10d::ReduceScatterOptions between;
    between.reduceOp = undivided_c10d(op);
    sent.push_back(network_->_reduce_scatter_base(mine, sums, between));
  };
  const auto last = [output, op, ranks = getSize()](ShmCollectives&) {
    if (op == ReduceOp::avg) at::Tensor(output).div_(ranks);
  };
  return submit({output}, first, last);
}

WorkPtr HierarchicalBackend::all_gather(const std::vector<at::Tensor>& outputs,
                                        const at::Tensor& input, std::vector<at::Tensor> results) {
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
    std::vector<std::vector<at::Tensor>> places(1);
    for (int host = 0; host < place_.hosts; ++host) {
      places[0].push_back(outputs[place_.rank_of(host, place_.local_rank)]);
    }
    std::vector<at::Tensor> mine = {input};
    sent.push_back(network_->allgather(places, mine));
    gather(shm, place_.host);
  };
  const auto last = [this, gather](ShmCollectives& shm) {
    for (int host = 0; host < place_.hosts; ++host) {
      if (host != place_.host) gather(shm, host);
    }
  };
  return submit(std::move(results), first, last);
}

WorkPtr HierarchicalBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                       std::vector<at::Tensor>& inputs,
                                       const c10d::AllgatherOptions&) {
  const at::Tensor& input = only(inputs);
  const auto& places = checked_outputs(outputs, input, getSize());
  return all_gather(places, input, places);
}

WorkPtr HierarchicalBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                             const c10d::AllgatherOptions&) {
  check_all_gather(output, input, getSize());
  return all_gather(output.view({getSize(), input.numel()}).unbind(), input, {output});
}

WorkPtr HierarchicalBackend::broadcast(std::vector<at::Tensor>& tensors,
                                       const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors);
  const int root = checked_root(options.rootRank, getSize());
  const int root_host = root / place_.local_size;
  const int local_root = root % place_.local_size;
  const bool from_here = place_.host == root_host;
  const auto share = [tensor, local_root](ShmCollectives& shm) {
    shm.broadcast(data_of(tensor), bytes_of(tensor), local_root);
  };
  const auto first = [=, this](ShmCollectives& shm, Works& sent) {
    if (place_.local_rank == local_root) {
      std::vector<at::Tensor> whole = {tensor};
      c10d::BroadcastOptions between;
      between.rootRank = root_host;
      sent.push_back(network_->broadcast(whole, between));
    }
    if (from_here) share(shm);
  };
  const auto last = [=](ShmCollectives& shm) {
    if (!from_here) share(shm);
  };
  return submit(tensors, first, last);
}

WorkPtr HierarchicalBackend::barrier(const c10d::BarrierOptions&) {
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
