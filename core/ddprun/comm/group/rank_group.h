// The collectives between the ranks of a run, as a strategy calls them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>
#include <utility>

#include "ddprun/comm/store/collective_kind.h"

namespace ddprun {

/// A handle of a collective under way. Copies are handles of the same collective.
class Work {
 public:
  struct State;
  Work() = default;  ///< an empty handle: wait() returns at once
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}
  /// Blocks until the result is in the tensor. On a GPU, the current stream waits instead of the
  /// caller. Throws CommError if the collective failed.
  void wait();

 private:
  std::shared_ptr<State> state_;
};

/// A call returns at once; with Await::next it may wait first. Its tensors must be contiguous, on
/// the group's device, alive and untouched until wait(). Every rank must make the same calls in the
/// same order. One thread at a time may call: the training one, or autograd's while that waits in
/// backward. A failure throws CommError that names the collective, its label and this rank.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// In place: tensor = op over the ranks' tensors. ReduceOp::avg divides the sum once by size().
  virtual Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label,
                          Await await = Await::later) = 0;
  /// In place: tensor = tensor of rank `root`.
  virtual Work broadcast(const at::Tensor& tensor, int root, std::string_view label,
                         Await await = Await::later) = 0;
  /// output = this rank's slice of op over the ranks' inputs. There are size() equal slices, in
  /// rank order. `output` may be this rank's slice of `input`.
  virtual Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                              std::string_view label, Await await = Await::later) = 0;
  /// output = the ranks' inputs, in rank order. `input` may be this rank's part of `output`.
  virtual Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view label,
                          Await await = Await::later) = 0;
};

}  // namespace ddprun
