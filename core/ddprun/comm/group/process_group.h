// The process group: collectives between the ranks of one run, each recorded with its times.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/rank_group.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace ddprun {

class Device;
Device& cpu_device();

class ProcessGroup;

/// How a group came to be.
struct GroupOrigin {
  /// Why its backend was taken: "asked for", "auto: all 2 ranks are on this host".
  std::string reason = {};
  /// Whether it took the place of another one, which was tried and refused.
  bool fell_back = false;
  int ranks_per_host = 1;  ///< of the group, on this rank's host
  /// Where an error happened, before "rank 0 of 2"; empty: in the group of all ranks.
  std::string place = {};
  /// Makes a group of some ranks, in which this rank is (subgroup()).
  std::function<std::unique_ptr<ProcessGroup>(const std::vector<int>& ranks)> subgroup = {};
  /// This rank is alone, and takes what it says for what the others say (absent_peers.h).
  bool peers_absent = false;
};

/// Collectives over a c10d::Backend: gloo, NCCL, or one of our own. Each is recorded with its
/// times.
class ProcessGroup final : public RankGroup {
 public:
  /// `backend`: its Works must supply futures, its options the timeout. `store`: carries
  /// all_gather_object() and messages of c10d code; it must be private to this group (a
  /// PrefixStore). `workers`: how many collectives the backend runs at a time (gloo's threads);
  /// start_ns is derived from it. `device`: of the tensors; it outlives the group.
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend, c10::intrusive_ptr<c10d::Store> store,
               int workers, GroupOrigin origin = {}, Device& device = cpu_device());
  ~ProcessGroup() override;

  int rank() const override;
  int size() const override;
  Device& device() const;
  std::string backend_name() const;
  /// Why this backend was taken.
  const std::string& backend_reason() const;
  /// Whether it, or that of a subgroup, took the place of one that was tried and refused.
  bool fell_back() const;
  /// How many of the ranks are on this rank's host.
  int ranks_per_host() const;

  /// A zeroed tensor (elements,). Collectives on it copy nothing, if the backend has memory of that
  /// kind. It may outlive the group. All ranks call it in the same order for the same number of
  /// elements, and it blocks. Throws CommError if the memory is refused to a rank.
  at::Tensor allocate(std::int64_t elements, const at::TensorOptions& options);

  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label,
                  Await await = Await::later) override;
  Work broadcast(const at::Tensor& tensor, int root, std::string_view label,
                 Await await = Await::later) override;
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                      std::string_view label, Await await = Await::later) override;
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view label,
                  Await await = Await::later) override;
  /// Returns when every rank has called it. It is recorded too.
  void barrier(std::string_view label = "barrier");

  /// Every rank's text, in rank order, of any length. It travels through the store, for control
  /// messages, and is not recorded. Blocks; all ranks call it in the same order.
  std::vector<std::string> all_gather_object(const std::string& text);
  /// The same, for rank 0 alone: the others get an empty list.
  std::vector<std::string> gather_object(const std::string& text);

  /// The group of `ranks`: some ranks of this group, in rising order, this one among them; ranks[i]
  /// is its rank i. Exactly these ranks call it, and it blocks until all have. Ranks that share
  /// several subgroups ask for them in the same order. All ranks give this group itself. The
  /// subgroup lives as long as this group, whose records include its collectives. Throws CommError,
  /// and ConfigError for backend mpi, which has no subgroups.
  ProcessGroup& subgroup(const std::vector<int>& ranks);
  /// These ranks as a c10d::ProcessGroup, for code written against that (c10d::Reducer). Its
  /// collectives are recorded too, labelled with their c10d names.
  c10::intrusive_ptr<c10d::ProcessGroup> as_c10d();

  /// The collectives that were completed since the last call, those of subgroups too, in the order
  /// in which they were enqueued. On the CPU it does not wait: collectives under way come with a
  /// later call. If nobody takes records, the last ones are kept: at least 65,536, and at most
  /// twice as many.
  std::vector<CollectiveRecord> take_records();

  /// The collectives since the last take_records() that are under way or that nobody waited for,
  /// those of subgroups too: "all_reduce 'layers.0' of 4096 bytes, under way".
  std::vector<std::string> open_collectives() const;

  /// Call after a launch of captured work: its collectives have run again, and take_records() will
  /// have a record of each.
  void replay();

  /// Leaves in order: a barrier, then the backend's threads end. Call it once at the end of a run
  /// that succeeded. After an error, the destructor alone drops the connections.
  void shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
