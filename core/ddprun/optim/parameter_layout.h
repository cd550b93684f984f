// What lies where in the flat buffers, known without their memory: parameters, units, slices.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/kernels/kernel_set.h"
#include "ddprun/optim/named_tensor.h"

namespace ddprun {

/// Elements [begin, end) of a flat buffer.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool contains(const Range& other) const { return begin <= other.begin && other.end <= end; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// In which dtypes the flat buffers are: each is float32 or bfloat16.
struct BufferDtypes {
  /// Of the matrix products and of what they read and write. The fused kernels read a copy of the
  /// parameters in it; with float32 there is no copy. It may also be float16 if there are no fused
  /// kernels.
  c10::ScalarType compute = c10::kFloat;
  /// Of the gradients that ranks exchange.
  c10::ScalarType reduce = c10::kFloat;
  /// Of the model's own tensors, and of gradients while backward accumulates them. If it is
  /// bfloat16, so must be the two above.
  c10::ScalarType model = c10::kFloat;
  /// Of the parameters that the optimizer updates. If it is float32 and `model` is bfloat16, they
  /// are masters, and the model's tensors are views of their copy. If it is bfloat16, `model` must
  /// be, and there are no masters: the model's tensors are views of the parameters.
  c10::ScalarType parameters = c10::kFloat;
  /// Of the moments, which the optimizer allocates. bfloat16 needs parameters in bfloat16. The
  /// optimizer computes in float32 in any case.
  c10::ScalarType moments = c10::kFloat;
};

/// Parameters that are used together: an embedding, a block, a head.
struct Unit {
  std::string name;
  int first = 0, last = 0;  ///< its parameters, in the order of the buffers
  Range range = {};         ///< padding included: as many equal slices as there are ranks
};

/// Parameter i lies at range(i) of every buffer. Index 0 is the parameter that was registered last,
/// because backward completes it first. Each range starts on a 64-byte boundary (in a bfloat16
/// buffer: 32-byte). The padding between ranges is zero in all buffers, and no reduction changes
/// that.
class ParameterLayout {
 public:
  /// `parameters` are in registration order. `kernels`: fused kernels read a copy in the dtype of
  /// the products, PyTorch's own operators do not. `ranks_per_host` 0: all are on one. Throws
  /// ConfigError if there is no parameter, a name appears twice, a unit is in two places, or the
  /// dtypes do not fit each other.
  ParameterLayout(const std::vector<NamedTensor>& parameters, const BufferDtypes& dtypes,
                  KernelSet kernels, int ranks, int ranks_per_host = 0);

  int count() const { return static_cast<int>(ranges_.size()); }
  const std::string& name(int index) const { return names_[index]; }
  const std::vector<std::string>& names() const { return names_; }
  Range range(int index) const { return ranges_[index]; }
  /// The parameter's shape.
  const std::vector<std::int64_t>& sizes(int index) const { return sizes_[index]; }
  /// From the begin of parameter `first` to the end of parameter `last`, padding between included.
  Range range(int first, int last) const { return {ranges_[first].begin, ranges_[last].end}; }
  /// From the begin of parameter `index` to the begin of the next, or the end of the buffer.
  Range with_padding(int index) const;
  Range all() const { return {0, units_.front().range.end}; }
  /// The number of elements of all parameters, without padding.
  std::int64_t parameter_count() const { return parameter_count_; }

  /// In the order of the forward pass, which is the reverse of the buffers': the first unit ends
  /// them.
  const std::vector<Unit>& units() const { return units_; }
  int unit_of(int index) const { return unit_of_[index]; }

  int ranks() const { return ranks_; }
  /// How many of them are on one host.
  int ranks_per_host() const { return ranks_per_host_; }
  /// Part `part` of the equal `parts` of `range`, which is made of whole units. `parts` divides
  /// ranks(); 0: as many parts as ranks.
  Range slice(Range range, int part, int parts = 0) const;

  const BufferDtypes& dtypes() const { return dtypes_; }
  std::int64_t gradient_bytes(Range range) const;
  /// True if products read a copy of the parameters.
  bool has_copy() const { return has_copy_; }
  /// True if it is read from the updated parameters although there is a copy.
  bool reads_float32(int index) const { return has_copy_ && float32_[index]; }
  /// True if nothing but its copy is read of it.
  bool reads_copy_alone(int index) const { return has_copy_ && !float32_[index]; }
  /// True if products read its copy beside that: a weight that is used twice.
  bool reads_both(int index) const { return reads_float32(index) && products_[index]; }
  /// Such parameters within `range`.
  std::vector<int> read_in_float32(Range range) const;
  /// True if nothing in `range` is read from the copy.
  bool only_float32(Range range) const;

 private:
  void place(const std::vector<NamedTensor>& parameters);

  std::vector<std::string> names_;
  std::vector<Range> ranges_;
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<bool> float32_, products_;  // by parameter: what reads it
  std::vector<Unit> units_;
  std::vector<int> unit_of_;  // by parameter
  BufferDtypes dtypes_;
  int ranks_, ranks_per_host_;
  bool has_copy_;
  std::int64_t parameter_count_ = 0;
};

}  // namespace ddprun
