// The loss of a micro-batch between forward and backward, and what may be one.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "ddprun/plugin/sharding.h"

namespace ddprun {

/// What forward() leaves for backward(): a loss that was computed as the precision says.
class Loss {
 public:
  /// The loss as the model returned it, detached.
  const at::Tensor& value() const { return value_; }
  /// What the precision multiplied it by, a scalar; undefined: it scales none.
  const at::Tensor& scaled_by() const { return scaled_by_; }

 private:
  friend class DataParallel;
  Loss(const at::Tensor& value, at::Tensor root, at::Tensor scaled_by, MicroBatch micro_batch)
      : value_(value.detach()),
        root_(std::move(root)),
        scaled_by_(std::move(scaled_by)),
        micro_batch_(micro_batch) {}

  at::Tensor value_;
  at::Tensor root_;  // where backward starts: divided by the micro-batches, and scaled
  at::Tensor scaled_by_;
  MicroBatch micro_batch_;
};

/// Throws Error unless it is a scalar to which parameters lead.
void check_loss(const at::Tensor& value);

/// Autograd's backward, which frees the graph. Throws Error if that was done before.
void backward_from(const at::Tensor& loss);

}  // namespace ddprun
