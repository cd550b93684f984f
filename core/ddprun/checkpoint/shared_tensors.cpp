// Sizes of tensors, and who of the ranks takes which.
#include "ddprun/checkpoint/shared_tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace ddprun {

std::int64_t elements_of(const TensorSpec& tensor) {
  return std::accumulate(tensor.sizes.begin(), tensor.sizes.end(), std::int64_t{1},
                         std::multiplies());
}

std::int64_t bytes_of(const TensorSpec& tensor) {
  return elements_of(tensor) * static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
}

std::vector<int> balanced(const std::vector<std::int64_t>& sizes, int ranks) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return sizes[i]; });
  std::vector<std::int64_t> sums(static_cast<std::size_t>(ranks));
  std::vector<int> out(sizes.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(sums);
    *least += sizes[i];
    out[i] = static_cast<int>(least - sums.begin());
  }
  return out;
}

}  // namespace ddprun
