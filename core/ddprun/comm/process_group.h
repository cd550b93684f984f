// The process group: collectives between the ranks of one run, each recorded with its times.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ddprun/comm/collective.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace ddprun {

class Device;
Device& cpu_device();

/// A handle of a collective under way. Copies are handles of the same collective.
class Work {
 public:
  struct State;
  Work();  ///< an empty handle: wait() returns at once
  explicit Work(std::shared_ptr<State> state);
  ~Work();
  Work(const Work&);
  Work& operator=(const Work&);

  /// Blocks until the result is in the tensor. On a GPU, the current stream waits instead of the
  /// caller. Throws CommError if the collective failed.
  void wait();

 private:
  std::shared_ptr<State> state_;
};

/// Collectives over a c10d::Backend: gloo, NCCL, or one of our own. A call returns at once. Its
/// tensors must be contiguous and on the group's device, and must stay alive and untouched until
/// wait(). Every rank must make the same calls in the same order. One thread at a time may call:
/// the training thread, or autograd's while the training thread waits in backward. A failure (a
/// dead peer, a timeout) throws CommError that names the collective, its label and this rank.
class ProcessGroup {
 public:
  /// `backend`: its Works must supply futures, its options the timeout. `store`: carries
  /// all_gather_object() and messages of c10d code; it must be private to this group (a
  /// PrefixStore). `workers`: how many collectives the backend runs at a time (gloo's threads);
  /// start_ns is derived from it. `reason`: why this backend was taken, for reports. `device`: of
  /// the tensors; it outlives the group.
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend, c10::intrusive_ptr<c10d::Store> store,
               int workers, std::string reason = "", Device& device = cpu_device());
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int size() const;
  Device& device() const;
  std::string backend_name() const;
  /// Why this backend was taken: "asked for", "auto: all 2 ranks are on this host".
  const std::string& backend_reason() const;

  /// A zeroed tensor (elements,). Collectives on it copy nothing, if the backend has memory of that
  /// kind. It may outlive the group. All ranks call it in the same order for the same number of
  /// elements, and it blocks. Throws CommError if the memory is refused to a rank.
  at::Tensor allocate(std::int64_t elements, const at::TensorOptions& options);

  /// In place: tensor = op over the ranks' tensors. ReduceOp::avg is the sum, divided once by
  /// size(): exact wherever the mean is. The division is part of the recorded time.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label);
  /// In place: tensor = tensor of rank `root`.
  Work broadcast(const at::Tensor& tensor, int root, std::string_view label);
  /// output = this rank's slice of op over the ranks' inputs. There are size() equal slices, in
  /// rank order.
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                      std::string_view label);
  /// output = the ranks' inputs one after another, in rank order. `input` may be this rank's part
  /// of `output`.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view label);
  /// Returns when every rank has called it. It is recorded too.
  void barrier(std::string_view label = "barrier");

  /// Every rank's text, in rank order, of any length. It travels through the store, for control
  /// messages, and is not recorded. Blocks; all ranks call it in the same order.
  std::vector<std::string> all_gather_object(const std::string& text);

  /// This group as a c10d::ProcessGroup, for code written against that (c10d::Reducer). Its
  /// collectives are recorded here too, labelled with their c10d names.
  c10::intrusive_ptr<c10d::ProcessGroup> as_c10d();

  /// The collectives completed since the last call, in the order of enqueueing. On the CPU it does
  /// not wait: those under way come with a later call. If nobody takes records, between 65,536 and
  /// twice as many are kept.
  std::vector<CollectiveRecord> take_records();

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
