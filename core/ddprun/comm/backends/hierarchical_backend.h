// The hierarchical backend: shared memory within a host, gloo between hosts.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "ddprun/comm/backends/shm_queue.h"
#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/comm_config.h"

namespace ddprun {

/// The place of a rank among `hosts` hosts of `local_size` ranks each: rank = host * local_size +
/// local_rank.
struct HostPlace {
  int host = 0;
  int hosts = 1;
  int local_rank = 0;
  int local_size = 1;

  int rank() const { return rank_of(host, local_rank); }
  int size() const { return hosts * local_size; }
  int rank_of(int other_host, int other_local_rank) const {
    return other_host * local_size + other_local_rank;
  }
};

/// A collective has three stages: shared memory, the network, shared memory again. Between hosts a
/// rank talks only to the ranks that have its own local rank, so that each rank carries an equal
/// part. For n bytes and H hosts, a host sends 2(H-1)/H n for an all-reduce, (H-1)/H n for a
/// reduce-scatter, and n for a broadcast. For an all-gather it sends its ranks' inputs once to each
/// other host. The stages of several collectives overlap. Each stage has a thread (the network has
/// gloo_threads) and takes collectives in the order of the calls.
///
/// The bits are the same on all ranks and in all runs. How a sum is associated depends on the
/// number of hosts and on where an element lies. avg divides the sum over all ranks once. Types,
/// refusals and failures are those of ShmBackend. An error between hosts names the ranks at the
/// other end.
class HierarchicalBackend final : public CollectiveBackend {
 public:
  /// `store` must be used by this object alone. `address` is that of make_gloo_backend(). Throws
  /// ShmRefused on all ranks of all hosts if shared memory cannot join the ranks of one host.
  /// Throws CommError.
  HierarchicalBackend(const c10::intrusive_ptr<c10d::Store>& store, const HostPlace& place,
                      const std::string& address, const CommConfig& config);
  /// Makes collectives under way or queued fail, here and on the other ranks.
  ~HierarchicalBackend() override;

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override;
  /// Memory that this host's ranks reach without a copy. If another host has none, the next
  /// collective fails.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;

 private:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Works = std::vector<WorkPtr>;

  /// Queues the first stage and the last. The first starts what goes over the network and adds it
  /// to `sent`. The last runs when all of that is done.
  WorkPtr submit(std::vector<at::Tensor> results,
                 std::function<void(ShmCollectives&, Works& sent)> first, ShmQueue::Run last);
  WorkPtr all_reduce(const CollectiveArguments& arguments, ReduceOp op);
  WorkPtr reduce_scatter(const CollectiveArguments& arguments, ReduceOp op);
  WorkPtr all_gather(const CollectiveArguments& arguments);
  WorkPtr send_from_root(const CollectiveArguments& arguments);
  WorkPtr meet();
  void wait_for_network(const Works& sent) const;

  const HostPlace place_;
  std::unique_ptr<ShmQueue> first_;
  std::unique_ptr<ShmQueue> last_;             // works on the first one's allocations
  c10::intrusive_ptr<c10d::Backend> network_;  // the ranks of this local rank; rank = host
};

}  // namespace ddprun
