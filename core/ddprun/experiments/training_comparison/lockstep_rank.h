// `ddprun diff`: an experiment, and others that make each of its steps from what it had before it.
// Beside it is `ddprun verify`, which declares nothing here.
//
// Family: lockstep_rank.cpp verify_rank.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace ddprun {

/// How far one tensor of a step is from that of the experiment that leads.
struct TensorDifference {
  std::string phase = {};    ///< forward, backward, update
  std::string unit = {};     ///< of the model
  std::string tensor = {};   ///< "output", "loss", or the parameter
  double difference = 0;     ///< |a - b| of the element that is furthest off; NaN: it is no number
  double size = 0;           ///< what it is measured by
  std::int64_t element = 0;  ///< which one, in the order in which the tensor lies in memory
  double lead = 0, other = 0;  ///< its values
};

/// The element of `other` that is furthest from `lead`, measured by the largest |lead|: what sums
/// of many addends are off by. (elements,) each; `begin` is the number of the first one.
TensorDifference largest_difference(const at::Tensor& lead, const at::Tensor& other,
                                    std::int64_t begin = 0);
/// The same, each element measured by the larger of |before| and |lead|, which is rounded when it
/// is stored, and the largest |lead - before|, as an update inherits the rounding of moments.
TensorDifference largest_of_update(const at::Tensor& before, const at::Tensor& lead,
                                   const at::Tensor& other, std::int64_t begin = 0);

/// Both of one tensor, of ranks that have parts of it. A NaN is furthest off.
TensorDifference further(const TensorDifference& a, const TensorDifference& b);

}  // namespace ddprun
