// What a program must leave as it is: where the model's parameters lie, and which are trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// Knows the model's tensors as DataParallel left them. Training thread only.
class ParameterWatch {
 public:
  /// From now on the tensors of `trained` and of `frozen` (null: there is none) are watched. Both
  /// outlive it.
  void begin(const FlatBuffers& trained, const FlatBuffers* frozen);
  /// Throws Error if a tensor lies elsewhere by now, so that the model would read what nobody
  /// updates, if requires_grad of one was changed, or if the program wrote a parameter that is a
  /// copy of what is updated.
  void check();

 private:
  struct Watched {
    const FlatBuffers* buffers = nullptr;
    int index = 0;  // in these
    bool trained = true;
    const void* memory = nullptr;
    std::int64_t version = 0;  // when it was last looked at
  };

  std::vector<Watched> all_;
};

}  // namespace ddprun
