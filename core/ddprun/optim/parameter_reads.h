// What reads each parameter, and in which dtype: the updated parameters, or a copy of them.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// Indices are those of ParameterLayout.
class ParameterReads {
 public:
  /// `parameters` are in registration order, `ranges` by index.
  ParameterReads(const std::vector<NamedTensor>& parameters, std::vector<Range> ranges,
                 const BufferDtypes& dtypes, KernelSet kernels);

  const BufferDtypes& dtypes() const { return dtypes_; }
  /// True if products read a copy of the parameters.
  bool has_copy() const { return has_copy_; }
  /// True if it is read from the updated parameters although there is a copy.
  bool in_float32(int index) const { return has_copy_ && float32_[index]; }
  /// True if nothing but its copy is read of it.
  bool copy_alone(int index) const { return has_copy_ && !float32_[index]; }
  /// True if products read its copy beside that: a weight that is used twice.
  bool both(int index) const { return in_float32(index) && products_[index]; }
  /// Parameters within `range` that are read in float32.
  std::vector<int> in_float32(Range range) const;
  /// True if all in `range` is read in float32.
  bool only_float32(Range range) const;
  /// True if something in `range` is read from the copy.
  bool copy_in(Range range) const;

 private:
  BufferDtypes dtypes_;
  std::vector<Range> ranges_;
  std::vector<bool> float32_, products_;  // by parameter
  bool has_copy_;
};

/// Bytes of the copy that is read of a unit; 0: none is.
std::int64_t copy_bytes(const ParameterLayout& layout, const Unit& unit);
/// What is read of a unit from the updated parameters: all of it, or parameters with their padding.
/// `norms_stay`: without what is beside_copy().
std::vector<Range> ranges_without_copy(const ParameterLayout& layout, const Unit& unit,
                                       bool norms_stay = false);
/// Bytes of both.
std::int64_t bytes_read(const ParameterLayout& layout, const Unit& unit, bool norms_stay = false);
/// Of all units, the parameters that are read in float32 beside a copy of others of their unit,
/// with their padding: norms.
std::vector<Range> beside_copy(const ParameterLayout& layout);

}  // namespace ddprun
