// The transformer's layers as fused kernels. Each has a backward of its own, which writes the
// gradients of its parameters into the memory that collectives and the optimizer use.
//
// The residual stream, (rows, d_model) with one row a token, is float32. What the matrix products
// read and write has the dtype of ParameterSlot::compute, called T below. There are no second
// derivatives.
// Family: fused_layers.cpp fused_loss.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>

#include "ddprun/optim/parameter_slot.h"

namespace ddprun::fused {

/// What the layers of one model share. A row is a token (b, t) of the batch; t is the fastest
/// index.
struct Shape {
  std::int64_t batch;
  std::int64_t time;
  std::int64_t heads;
  float norm_eps;
  at::Tensor rotations;  ///< (>= time, head_dim / 2, 2) float32: RoPE's cosine and sine
};

/// The parameters of one layer. Fused kernels have no biases.
struct Weight : ParameterSlot {
  at::Tensor bias;  ///< undefined: there is none
};

/// The parameters of one block, undefined where it has none. Where q, k and v are joint (fused
/// kernels do without), q is all three.
struct Block {
  Weight ln1, q, k, v, output, ln2, w1, w3, w2;
};

/// ids: (rows,) int64. Returns the stream.
at::Tensor embedding(const ParameterSlot& table, const at::Tensor& ids);

/// RMSNorm, then the projections to q, k, v as one product, then RoPE on q and k. Returns q, k, v:
/// (batch, heads, time, head_dim), strided views of one buffer.
std::array<at::Tensor, 3> attention_input(const at::Tensor& stream, const Block& block,
                                          const Shape& shape);

/// The output projection and the residual. mixed: (batch, heads, time, head_dim), what attention
/// returned. Returns the stream.
at::Tensor attention_output(const at::Tensor& stream, const at::Tensor& mixed, const Block& block,
                            const Shape& shape);

/// RMSNorm, the SwiGLU feed-forward and the residual. Returns the stream.
at::Tensor feed_forward(const at::Tensor& stream, const Block& block, const Shape& shape);

/// Who uses the memory of the head's gradient (ParameterSlot::gradient); one per model. A loss
/// builds that gradient there during its forward, long before it becomes .grad. That loss is the
/// tenant until its backward runs or the loss is gone. Anyone else who needs the memory calls
/// vacate() first.
struct HeadGradientMemory {
  at::Tensor* tenant = nullptr;  ///< where the loss keeps its handle of the memory

  void vacate() {
    if (tenant != nullptr) *tenant = tenant->clone();
    tenant = nullptr;
  }
};

/// Of rows: their targets (rows,) int64, negative for those that do not count, and what the sum of
/// their cross-entropies is divided by.
struct LossTargets {
  at::Tensor ids;
  double divisor;
};

/// The logits that exist at a time, at most, but 256 rows of them: few enough to save memory, and
/// enough for the products to run at full speed, since each part of the rows adds to the gradient
/// of the head's weight once more.
struct LogitsAtATime {
  std::int64_t bytes, rows;
};
/// Caches hold a part for what reads it next.
constexpr LogitsAtATime kLogitsOfCpu = {.bytes = 24 << 20, .rows = 1024};
/// Products of fewer rows would leave a part of a GPU without work.
constexpr LogitsAtATime kLogitsOfGpu = {.bytes = 512 << 20, .rows = 1 << 16};

/// The final RMSNorm, the head and the cross-entropy with the targets. Returns a float32 scalar. It
/// computes in chunks of rows, each chunk's gradients right after its logits, so that the logits of
/// all rows never exist at once. In no-grad mode it computes no gradient.
at::Tensor head_loss(const at::Tensor& stream, const ParameterSlot& norm, const ParameterSlot& head,
                     const LossTargets& targets, float norm_eps,
                     const std::shared_ptr<HeadGradientMemory>& memory,
                     const LogitsAtATime& at_a_time);

}  // namespace ddprun::fused
