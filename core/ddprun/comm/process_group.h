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

/// A handle of a collective under way. Copyable; all copies mean the same collective.
class Work {
 public:
  struct State;
  Work();  ///< an empty handle: wait() returns at once
  explicit Work(std::shared_ptr<State> state);
  ~Work();
  Work(const Work&);
  Work& operator=(const Work&);

  /// Blocks until the result is in the tensor (for ReduceOp::avg: divided); on a GPU lets the
  /// current stream wait for that instead. Throws CommError if the collective failed.
  void wait();

 private:
  std::shared_ptr<State> state_;
};

/// Collectives over a c10d::Backend (PyTorch's own interface: gloo, NCCL, our own). All calls
/// return at once; tensors must be contiguous, on the group's device, stay alive and untouched
/// until wait(). Every rank must make the same calls in the same order. One thread at a time may
/// call (the training thread, or autograd's while that one waits in backward). Errors: CommError,
/// naming the collective, its label and this rank; a dead peer or a timeout shows there.
class ProcessGroup {
 public:
  /// `store`: for exchange() and for c10d code; must be private to this group (a PrefixStore).
  /// `workers`: how many collectives the backend runs at a time (gloo's thread count); start_ns
  /// derives from it. The backend's Works must supply futures, its options the timeout. `reason`:
  /// why it is this backend, for reports. `device`: of the tensors; it outlives the group.
  ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend, c10::intrusive_ptr<c10d::Store> store,
               int workers, std::string reason = "", Device& device = cpu_device());
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int size() const;
  Device& device() const;
  std::string backend_name() const;
  /// "asked for", "auto: all 2 ranks are on this host"
  const std::string& backend_reason() const;

  /// A zeroed tensor (elements,) whose memory the group's collectives reach without a copy, if its
  /// backend has such memory; it may outlive the group. A collective call that blocks: all ranks,
  /// in the same order, as many elements. Throws CommError if a rank cannot have it.
  at::Tensor allocate(std::int64_t elements, const at::TensorOptions& options);

  /// In place: tensor = op over ranks. avg = sum, then one division by size() (exact wherever the
  /// mean is), on the backend's thread: end_ns is after it.
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label);
  /// In place: tensor = tensor of rank `root`.
  Work broadcast(const at::Tensor& tensor, int root, std::string_view label);
  /// output = this rank's slice (of size() equal ones, in rank order) of op over the ranks' inputs.
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                      std::string_view label);
  /// output = the ranks' inputs one after another, in rank order. `input` may be this rank's slice
  /// of `output`.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view label);
  /// Returns when every rank has called it. Recorded, as the others.
  void barrier(std::string_view label = "barrier");

  /// Every rank's text, in rank order: control messages, through the store, not recorded.
  std::vector<std::string> exchange(const std::string& text);

  /// This group as PyTorch's own c10d::ProcessGroup, for code written against that (c10d::Reducer).
  /// Its collectives are recorded here too, labelled with their c10d names.
  c10::intrusive_ptr<c10d::ProcessGroup> as_c10d();

  /// Completed collectives since the last call, in the order of enqueueing; start_ns filled in.
  /// On the CPU it waits for none: those under way come with a later call. Records are kept until
  /// taken, but if nobody takes any, the last 65,536 at least and twice as many at most.
  std::vector<CollectiveRecord> take_records();

  /// For who launches captured work: the collectives within it have run again, and take_records()
  /// is to have them.
  void replay();

  /// Leaves in order: barrier, then the backend's threads end. Called once at the end of a run that
  /// succeeded; the destructor alone (after an error) just drops the connections.
  void shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
