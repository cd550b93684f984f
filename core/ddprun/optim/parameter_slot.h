// How the fused kernels read a parameter and where they write its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace ddprun {

class GradientScratch;

/// Where a product may write a gradient as ranks exchange it, instead of in float32.
struct ReducedGradient {
  /// bfloat16, contiguous, of the parameter's shape.
  at::Tensor memory;
  /// What .grad becomes then, for whoever looks there: NaN, float32, of the parameter's shape.
  /// Fused layers may add to it; a loss that also uses the parameter by ATen's operators may not.
  at::Tensor placeholder;
  /// Whether it may: no other backward adds to the gradients of the one under way.
  std::shared_ptr<const bool> allowed;
};

/// True if `gradient` is a view of `placeholder`, so that the gradient itself lies elsewhere.
bool is_placeholder(const at::Tensor& placeholder, const at::Tensor& gradient);

/// One parameter of a model that computes by fused kernels. Gradients follow PyTorch's convention:
/// while parameter.grad() is undefined there is none, and the first one is written, not added.
struct ParameterSlot {
  /// The leaf, float32.
  at::Tensor parameter;
  /// Its copy in the dtype of the matrix products; undefined: there is none.
  at::Tensor compute;
  /// Memory for its gradient: float32, contiguous, of its shape. Undefined: allocated when needed.
  at::Tensor gradient;
  /// Only where the products are in bfloat16.
  std::optional<ReducedGradient> reduced = {};
  /// Whose part `gradient` is; null: of nothing that may be lent.
  std::shared_ptr<GradientScratch> scratch = {};

  /// False: it is frozen, and layers leave its gradient out.
  bool trained() const { return parameter.requires_grad(); }
  /// What the matrix products read.
  const at::Tensor& weight() const { return compute.defined() ? compute : parameter; }
};

using Slots = std::span<const ParameterSlot* const>;

/// The matrices (out_i, in) stacked to one (sum of out_i, in), in the dtype of the products.
/// Nothing is copied if they are neighbours in memory.
at::Tensor stack_weights(Slots slots);

/// Writes a float32 matrix (rows, columns) to `out`, or adds it to `out`.
using GradientProduct = std::function<void(bool add, at::Tensor& out)>;

/// Adds what `product` writes, (sum of out_i, columns), to the gradients of stacked matrices. If
/// these are neighbours in memory, that is one call and in place. What is frozen is left out, and
/// nothing is computed where all are. Call it in backward, without grad mode.
void add_gradients(Slots slots, std::int64_t columns, const GradientProduct& product);

/// Lets `product` write a bfloat16 matrix (sum of out_i, columns): the gradients of stacked
/// matrices as ranks exchange them, if all of them may be written so and are neighbours in memory.
/// False: nothing was done.
bool write_reduced_gradients(Slots slots, const std::function<void(at::Tensor& out)>& product);

/// Uninitialized and contiguous, for what is gone when the slot's gradient has been written: in the
/// memory of gradients that come later, if there is room.
at::Tensor empty_until_written(const ParameterSlot& slot, at::IntArrayRef sizes,
                               const at::TensorOptions& options);

/// Where the gradient is written, uninitialized: its place in the flat buffer, out of which moves
/// what lies there, or memory of its own. Call it before the first write.
at::Tensor memory_for_gradient(const ParameterSlot& slot);

/// Memory to add the gradient to: the parameter's .grad, made and zeroed if it was undefined.
at::Tensor& gradient_to_add_to(const ParameterSlot& slot);

/// True while .grad is undefined, so that `slot.gradient` is unused.
bool gradient_is_free(const ParameterSlot& slot);

}  // namespace ddprun
