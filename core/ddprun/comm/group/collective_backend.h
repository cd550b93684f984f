// c10d's calls of collectives as one struct and one virtual: the base of all backends of our own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "ddprun/comm/store/collective_kind.h"

namespace ddprun {

/// c10d's operations, in the order of ReduceOp.
inline constexpr std::array kC10dOps = {c10d::ReduceOp::SUM, c10d::ReduceOp::AVG,
                                        c10d::ReduceOp::MAX};
constexpr c10d::ReduceOp::RedOpType to_c10d(ReduceOp op) {
  return kC10dOps[static_cast<std::size_t>(op)];
}

/// What a collective is called with.
struct CollectiveArguments {
  CollectiveKind kind = CollectiveKind::barrier;
  std::string_view label = {};  ///< a backend does not keep it
  /// What is written, and what the work's future gives: tensors to reduce, or one to broadcast, in
  /// place; the slice of a reduce-scatter; of an all-gather one tensor, or one for each rank.
  std::vector<at::Tensor> outputs = {};
  at::Tensor input = {};  ///< of a reduce-scatter or an all-gather
  c10d::ReduceOp op = c10d::ReduceOp::SUM;
  std::int64_t root = 0;
  Await await = Await::later;
  /// Where a backend that knows it puts the time (now_ns()) at which a thread began with it.
  std::shared_ptr<std::atomic<std::int64_t>> began_ns = {};
  bool awaited = false;  ///< the caller waits for the work; c10d code may wait for its future alone

  /// Bytes of the (unsharded) tensors.
  std::int64_t bytes() const;
};

/// Calls c10d's function for it on any backend, and start() on one of our own.
c10::intrusive_ptr<c10d::Work> start_on(c10d::Backend& backend, CollectiveArguments arguments);

/// All collectives that c10d code calls come to start(), labelled with their c10d names. Of c10d's
/// options, the operation and the root count; the timeout is the group's.
class CollectiveBackend : public c10d::Backend {
 public:
  CollectiveBackend(int rank, int size, std::string name,
                    std::chrono::milliseconds timeout = kBackendDefaultTimeout);

  /// Starts a collective. Throws what c10d code is to see if it cannot be started. With Await::next
  /// it may return nothing: then the collective is done.
  virtual c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) = 0;

  const std::string getBackendName() const final { return options_->backend; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) final;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) final;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) final;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) final;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) final;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) final;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) final;

 private:
  const c10::intrusive_ptr<Options> options_;
};

}  // namespace ddprun
