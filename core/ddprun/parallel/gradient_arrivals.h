// Which gradients the backward under way has produced.
#pragma once

#include <vector>

#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// Each parameter that is trained gets one gradient in a backward. Autograd's thread while backward
/// runs, else the training thread.
class GradientArrivals {
 public:
  /// `buffers` outlives it.
  explicit GradientArrivals(const FlatBuffers& buffers) : buffers_(buffers) {}

  void begin();
  /// Looks at what autograd left of gradient `index`. False: nothing. Throws Error if it is sparse,
  /// if it came before in this backward or, unless `accumulates`, if no backward of ours is under
  /// way.
  bool note(int index, bool accumulates);
  bool under_way() const { return under_way_; }
  /// True once all have come, or all from `first` to `last`.
  bool complete() const { return missing_ == 0; }
  bool complete(int first, int last) const;
  /// Throws Error that names those that did not come.
  void end();

 private:
  const FlatBuffers& buffers_;
  bool under_way_ = false;
  int missing_ = 0;
  std::vector<bool> came_ = {};
};

}  // namespace ddprun
