// The state of the random generators that operators draw from, to draw the same once more.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ddprun {

/// The states of the default generators: the CPU's, and that of `device`, as they are on
/// construction. They belong to the process, so threads that draw meanwhile disturb each other.
class RandomState {
 public:
  explicit RandomState(c10::Device device);

  /// Whether nothing was drawn since.
  bool is_current() const;
  /// Puts the generators into this state.
  void restore() const;

 private:
  c10::Device device_;
  std::vector<at::Tensor> states_;
};

}  // namespace ddprun
