// Parameters and gradients in flat buffers, in the order in which backward produces gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ddprun/kernels/kernel_set.h"
#include "ddprun/memory/private_memory.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/buffer_places.h"
#include "ddprun/optim/gradient_scratch.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/optim/parameter_layout.h"
#include "ddprun/optim/parameter_slot.h"

namespace ddprun {

/// Owns the storage of a model's parameters and gradients, laid out as ParameterLayout says.
///
/// Placement whole, each is one buffer. Sharded parameters: a rank keeps the updated parameters of
/// what it owns; what the model reads is a unit's place, filled before the unit is used. Sharded
/// gradients: backward writes into a unit's place; the mean of what the rank owns is kept, and
/// micro-batches add up there.
class FlatBuffers : public ParameterLayout {
 public:
  /// Moves the parameters into flat buffers. They are given in registration order, and are float32
  /// leaves that require grad, on one device. Each tensor stays the user's and becomes a view of
  /// what the model reads (set_data); its .grad is unset. `allocate` makes what collectives work
  /// on. Throws ConfigError that names the parameter if one is not such a leaf or shares memory
  /// with another.
  FlatBuffers(const ParameterLayout& layout, const std::vector<NamedTensor>& parameters,
              BufferHolding holding = {}, const Allocate& allocate = allocate_private);
  /// All of it, on one rank.
  explicit FlatBuffers(const std::vector<NamedTensor>& parameters, BufferDtypes dtypes = {},
                       const Allocate& allocate = allocate_private,
                       KernelSet kernels = KernelSet::reference);

  /// The user's tensor, in its own shape.
  const at::Tensor& parameter(int index) const { return tensors_[index]; }
  const BufferHolding& holding() const { return holding_; }
  const BufferDtypes& dtypes() const;
  /// What this rank updates, without empty ranges; all() if the plan names nothing else.
  const std::vector<Range>& owned() const { return owned_; }
  /// Those of them within `range`, cut off at its ends.
  std::vector<Range> owned(Range range) const;
  /// True if every rank updates everything: the same on all ranks.
  bool owns_all() const { return holding_.owned.empty(); }
  /// Whether what the model reads of a unit, but for norms, is old until the unit is used.
  bool gathers() const {
    return holding_.parameters == Placement::sharded || holding_.gathered_in_forward;
  }

  /// A 1-D view of the parameters that the optimizer updates, of which a rank may hold what it owns
  /// alone.
  at::Tensor parameters(Range range) const { return parameters_.view(range); }
  /// A 1-D view of the gradients, in the dtype in which ranks exchange them.
  at::Tensor gradients(Range range) const;
  /// A 1-D view of what the optimizer reads: the gradients themselves, or, of gradients held by
  /// unit, the mean of what this rank owns.
  at::Tensor mean(Range range) const;
  at::ScalarType mean_dtype() const {
    return holding_.gradients == Placement::sharded ? dtypes().parameters : dtypes().reduce;
  }
  /// A 1-D view of the copy that the optimizer renews; undefined if there is none. Throws Error if
  /// it covers a part of `range`.
  at::Tensor compute_copy(Range range) const;
  /// Renews the copy. Call it after anything but the optimizer wrote parameters.
  void parameters_changed(Range range);
  /// Calls `agree` with this rank's initial values, in one tensor or unit by unit; it makes them
  /// those of all ranks. Then the model reads them.
  void agree_on_values(const std::function<void(const at::Tensor&)>& agree);
  /// Calls `fill` to write the parameters of `range`, all or those of a unit, into `values`,
  /// (range.size(),). Then what this rank holds of them is what the optimizer and the model read.
  /// All ranks write the same.
  void set_parameters(const std::function<void(const at::Tensor& values, Range range)>& fill);

  /// Where the parameters of `range`, whole units of one dtype, are gathered, in gather_dtype().
  at::Tensor gathered(Range range) const;
  /// Call it when they are there: renews the copy of what is read in both dtypes.
  void renew_copy(Range range);
  /// Where the model reads a parameter of norms(), float32.
  at::Tensor norm(int index) const;
  /// What the model reads of a parameter, as 1-D views.
  std::vector<at::Tensor> read(int index) const;

  /// Laid out as parameter `index` was given, which need not be how it lies now: float32, on the
  /// CPU.
  at::Tensor empty_like(int index) const;

  /// The same for a gradient that is to be returned to autograd: while there is none, where it will
  /// lie, if that is on the CPU.
  at::Tensor empty_gradient(int index) const;

  /// The parameters for fused kernels, in registration order. Throws ConfigError if fused kernels
  /// do not have these dtypes.
  std::vector<ParameterSlot> slots() const;

  /// Says before a forward how many micro-batches a step has. If nothing will be added to the
  /// gradients of one, products may write them as ranks exchange them (ReducedGradient).
  void expect_micro_batches(std::int64_t count);
  /// Makes .grad of parameter `index` a view of the gradient buffer, with the value that backward
  /// gave it, unless a product wrote it as ranks exchange it. Call it after backward wrote or added
  /// to .grad. False if .grad is undefined.
  bool adopt_gradient(int index);
  /// Makes gradients(range(index)) hold the gradient in the dtype that ranks exchange. Call it
  /// after the last adopt_gradient() of this parameter, before the exchange.
  void finish_gradient(int index);
  /// Of sharded gradients: true if add_mean() has been called for the unit in this step.
  bool mean_begun(int unit) const { return mean_begun_[unit]; }
  /// Of sharded gradients: adds this micro-batch's mean of a slice of the unit, in whatever
  /// dtype, and lets go of the unit's gradients.
  void add_mean(int unit, Range slice, const at::Tensor& mean);

  /// Unsets every .grad, so that the next backward writes gradients instead of adding to them.
  void zero_grad();

  /// Bytes of all buffers on this rank.
  std::int64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  /// How the user's tensor lies in memory.
  struct Shape {
    std::vector<std::int64_t> sizes, strides;
  };

  at::Tensor allocate(const Allocate& how, std::int64_t elements, at::ScalarType dtype);
  void hold_parameters(const Allocate& how);
  void hold_gathered(const Allocate& how);
  void hold_gradients(const Allocate& how);
  void hold_owned(BufferPlaces& places, at::ScalarType dtype);
  /// `for_all`: no unit shares memory with another.
  UnitPlaces make_places(const std::function<std::int64_t(const Unit&)>& bytes, bool for_all,
                         const Allocate& how);
  void hold_by_unit(BufferPlaces& places, at::ScalarType dtype, const Allocate& how);
  void copy_values(const at::Tensor& flat, Range range) const;
  void put_values(const at::Tensor& values, const Unit& unit);
  void point_at_copy();
  bool read_by_kernels_alone(int index) const;
  at::Tensor copy_of(int index) const;
  void point_at_gathered(int index);
  at::Tensor shaped(const at::Tensor& flat, int index) const;
  std::optional<ReducedGradient> reduced_gradient(int index) const;
  /// True if a product wrote the gradient as ranks exchange it.
  bool written_reduced(int index) const;

  std::vector<at::Tensor> tensors_;
  std::vector<Shape> shapes_;
  BufferHolding holding_;
  std::vector<Range> owned_;
  at::TensorOptions options_;
  BufferPlaces parameters_;     // dtypes().parameters
  BufferPlaces copy_;           // dtypes().compute, or empty
  BufferPlaces gathered_;       // of sharded units: what the model reads
  BufferPlaces gathered_copy_;  // of those that it reads in both dtypes
  BufferPlaces norms_;          // of sharded parameters
  BufferPlaces gradients_;      // dtypes().model: what backward accumulates
  BufferPlaces reduced_;        // dtypes().reduce: what ranks exchange; may be gradients_
  BufferPlaces mean_;           // dtypes().parameters, by unit: of what this rank owns
  bool same_dtype_ = true;      // of gradients_ and reduced_
  at::Tensor placeholder_;      // (1,) NaN: see ReducedGradient
  /// In gradients_, where that is whole.
  std::shared_ptr<GradientScratch> scratch_;
  std::shared_ptr<bool> may_write_reduced_ = std::make_shared<bool>(false);
  std::vector<bool> mean_begun_;  // by unit: a micro-batch of this step is in mean_
  std::int64_t allocated_bytes_ = 0;
};

}  // namespace ddprun
