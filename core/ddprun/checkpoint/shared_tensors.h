// Tensors of which each rank has parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct TensorSpec {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> sizes = {};
};

std::int64_t elements_of(const TensorSpec& tensor);
std::int64_t bytes_of(const TensorSpec& tensor);

/// Elements of a tensor, from `begin` on, in the order in which they lie in it.
struct TensorPart {
  std::string name;
  std::int64_t begin = 0;
  at::Tensor values = {};  ///< a 1-D view of the rank's memory
  bool writes = true;      ///< of the ranks that have them, this one writes them to a checkpoint
};

struct SharedTensors {
  std::vector<TensorSpec> all;  ///< the same on all ranks
  std::vector<TensorPart> own;  ///< those that ranks write make up `all`, each element once
};

/// Which rank takes each of them, so that all have about as much: the largest first, to the rank
/// that has least (Graham 1969, "Bounds on Multiprocessing Timing Anomalies"). The same on all
/// ranks.
std::vector<int> balanced(const std::vector<std::int64_t>& sizes, int ranks);

}  // namespace ddprun
