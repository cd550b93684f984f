// Parameters and gradients in two contiguous buffers, in the order in which backward produces
// gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ddprun/base/private_memory.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/optim/parameter_slot.h"

namespace ddprun {

/// Elements [begin, end) of a flat buffer.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// The dtypes of what accompanies the float32 parameters: float32 (nothing) or bfloat16.
struct BufferDtypes {
  at::ScalarType compute = at::kFloat;  ///< of a copy of the parameters, for the matrix products
  at::ScalarType reduce = at::kFloat;   ///< of the gradients as ranks exchange them
  /// Of the model's own tensors, and of gradients while they are accumulated. Bfloat16: so are the
  /// two above, the tensors are views of the copy, and what the optimizer updates is a float32
  /// master.
  at::ScalarType model = at::kFloat;
};

/// Gives a zeroed tensor (elements,) of these options, on a 64-byte boundary.
using Allocate = std::function<at::Tensor(std::int64_t elements, const at::TensorOptions& options)>;

/// Owns the storage of a model's parameters and gradients. Parameter i lies at range(i) of each
/// buffer; i counts in reverse order of registration, which is the order in which backward
/// completes. Each range starts on a 64-byte boundary (of bfloat16 32); the padding between ranges
/// is zero in all buffers and stays so under any reduction.
class FlatBuffers {
 public:
  /// Moves the parameters (given in registration order, float32 leaves that require grad, one
  /// device) into the flat buffer: each tensor becomes a view of it, or of its copy (set_data),
  /// with .grad unset. The tensors stay the user's. Throws ConfigError naming the parameter if one
  /// is not a float32 leaf or appears twice, and if the dtypes do not fit each other. `allocate` is
  /// called for what collectives work on: parameters and gradients.
  explicit FlatBuffers(const std::vector<NamedTensor>& parameters, BufferDtypes dtypes = {},
                       const Allocate& allocate = allocate_private);

  int count() const { return static_cast<int>(ranges_.size()); }
  const std::string& name(int index) const { return names_[index]; }
  /// The user's tensor: a view in its own shape of the flat buffer, or of the copy.
  const at::Tensor& parameter(int index) const { return tensors_[index]; }

  Range range(int index) const { return ranges_[index]; }
  /// From the begin of `first` to the end of `last` (inclusive); ranges between are contiguous but
  /// for padding.
  Range range(int first, int last) const { return {ranges_[first].begin, ranges_[last].end}; }
  Range all() const { return {0, parameters_.numel()}; }

  /// 1-D views, no copies. Parameters are the float32 ones that the optimizer updates; gradients
  /// are in the dtype in which ranks exchange them.
  at::Tensor parameters(Range range) const;
  at::Tensor gradients(Range range) const;
  std::int64_t gradient_bytes(Range range) const;
  /// The copy of the parameters for the matrix products; undefined if there is none, or nobody has
  /// asked for slots() yet.
  at::Tensor compute_copy(Range range) const;
  /// Call after writing parameters by other means than the optimizer: renews the copy.
  void parameters_changed(Range range);

  /// For fused kernels, in registration order. The first call makes the copy of the parameters that
  /// they read: PyTorch's own operators, and so a model without fused kernels, have no use for it
  /// unless it is the model's own. Throws ConfigError for dtypes that fused kernels do not have.
  std::vector<ParameterSlot> slots();

  /// A backward has added to .grad of parameter `index`: whatever it is now becomes a view of the
  /// gradient buffer. False if there is no gradient.
  bool adopt_gradient(int index);
  /// After the last adopt_gradient() of a step: gradients(range(index)) holds the gradient.
  void finish_gradient(int index);

  /// Number of parameters without padding.
  std::int64_t parameter_count() const { return parameter_count_; }

  /// Unsets every .grad: the next backward writes gradients instead of adding to them.
  void zero_grad();

 private:
  at::Tensor view_of(const at::Tensor& flat, int index) const;
  void make_compute_copy();

  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
  std::vector<Range> ranges_;
  at::Tensor parameters_;  // (elements,) float32
  at::Tensor gradients_;   // (elements,) dtypes_.model: what backward accumulates
  at::Tensor reduced_;     // (elements,) dtypes_.reduce: what ranks exchange; it may be gradients_
  at::Tensor compute_;     // (elements,) dtypes_.compute, or undefined
  BufferDtypes dtypes_;
  std::int64_t parameter_count_ = 0;
};

}  // namespace ddprun
