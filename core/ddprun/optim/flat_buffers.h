// All parameters in one contiguous buffer and all gradients in another, in the order in which
// backward produces gradients.
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

/// Which buffers there are, and in which dtypes: each is float32 or bfloat16.
struct BufferLayout {
  /// Of the copy of the parameters that the matrix products read. With float32 there is no copy.
  at::ScalarType compute = at::kFloat;
  /// Of the gradients that ranks exchange.
  at::ScalarType reduce = at::kFloat;
  /// Of the model's own tensors, and of gradients while backward accumulates them. If it is
  /// bfloat16, so must be the two above.
  at::ScalarType model = at::kFloat;
  /// Of the parameters that the optimizer updates. If it is float32 and `model` is bfloat16, they
  /// are masters, and the model's tensors are views of their copy. If it is bfloat16, `model` must
  /// be, and there are no masters: the model's tensors are views of the parameters.
  at::ScalarType parameters = at::kFloat;
  /// Of the moments, which the optimizer allocates. bfloat16 needs parameters in bfloat16.
  at::ScalarType moments = at::kFloat;
  /// False: nothing will call backward, and there are no buffers of gradients.
  bool gradients = true;
};

/// Makes a zeroed tensor (elements,) of these options, on a 64-byte boundary.
using Allocate = std::function<at::Tensor(std::int64_t elements, const at::TensorOptions& options)>;

/// Owns the storage of a model's parameters and gradients. Parameter i lies at range(i) of every
/// buffer. Index 0 is the parameter that was registered last, because backward completes it first.
/// Each range starts on a 64-byte boundary (in a bfloat16 buffer: 32-byte). The padding between
/// ranges is zero in all buffers, and no reduction changes that.
class FlatBuffers {
 public:
  /// Moves the parameters into the flat buffer. They are given in registration order, and are
  /// float32 leaves that require grad, on one device. Each tensor stays the user's and becomes a
  /// view of the buffer (set_data), or of the copy if there are masters; its .grad is unset.
  /// `allocate` makes what collectives work on: the parameters, and the gradients that ranks
  /// exchange. Throws ConfigError that names the parameter if one is not such a leaf or appears
  /// twice, and ConfigError if the dtypes do not fit each other.
  explicit FlatBuffers(const std::vector<NamedTensor>& parameters, BufferLayout layout = {},
                       const Allocate& allocate = allocate_private);

  int count() const { return static_cast<int>(ranges_.size()); }
  const std::string& name(int index) const { return names_[index]; }
  /// The user's tensor, in its own shape: a view of the flat buffer, or of the copy.
  const at::Tensor& parameter(int index) const { return tensors_[index]; }

  Range range(int index) const { return ranges_[index]; }
  /// From the begin of parameter `first` to the end of parameter `last`, padding between included.
  Range range(int first, int last) const { return {ranges_[first].begin, ranges_[last].end}; }
  Range all() const { return {0, parameters_.numel()}; }

  /// A 1-D view of the parameters that the optimizer updates.
  at::Tensor parameters(Range range) const;
  /// A 1-D view of the gradients, in the dtype in which ranks exchange them. There must be some.
  at::Tensor gradients(Range range) const;
  std::int64_t gradient_bytes(Range range) const;
  at::ScalarType moments_dtype() const { return layout_.moments; }
  /// A 1-D view of the copy that the matrix products read; undefined if there is no copy (yet:
  /// slots() may make one).
  at::Tensor compute_copy(Range range) const;
  /// Renews the copy. Call it after anything but the optimizer wrote parameters.
  void parameters_changed(Range range);

  /// The parameters for fused kernels, in registration order. The first call makes the copy that
  /// these kernels read; PyTorch's own operators do not need one. Throws ConfigError if fused
  /// kernels do not have these dtypes.
  std::vector<ParameterSlot> slots();

  /// Makes .grad of parameter `index` a view of the gradient buffer, with the value that backward
  /// gave it. Call it after backward wrote or added to .grad. False if .grad is undefined.
  bool adopt_gradient(int index);
  /// Makes gradients(range(index)) hold the gradient in the dtype that ranks exchange. Call it once
  /// a step, after the last adopt_gradient() of this parameter.
  void finish_gradient(int index);

  /// The number of elements of all parameters, without padding.
  std::int64_t parameter_count() const { return parameter_count_; }

  /// Unsets every .grad, so that the next backward writes gradients instead of adding to them.
  void zero_grad();

 private:
  at::Tensor view_of(const at::Tensor& flat, int index) const;
  void make_compute_copy();

  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
  std::vector<Range> ranges_;
  at::Tensor parameters_;  // (elements,) layout_.parameters
  at::Tensor gradients_;   // (elements,) layout_.model: what backward accumulates, or undefined
  at::Tensor reduced_;     // (elements,) layout_.reduce: what ranks exchange; may be gradients_
  at::Tensor compute_;     // (elements,) layout_.compute: the copy, or undefined
  BufferLayout layout_;
  std::int64_t parameter_count_ = 0;
};

}  // namespace ddprun
