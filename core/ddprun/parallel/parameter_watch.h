// What a program must leave as it is: where the model's parameters lie, and which are trained.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ddprun/optim/flat_buffers.h"

namespace ddprun {

/// Knows the model's tensors as DataParallel left them. Training thread only.
class ParameterWatch {
 public:
  /// What a program may write once a step's backwards are done.
  struct Writable {
    bool gradients = true;  ///< .grad is what the optimizer reads, and alike on all ranks
    /// Unless the optimizer is writing parameters by then, so that nothing is known of others.
    bool parameters_rest = true;
  };
  /// From now on the tensors of `trained` and of `frozen` (null: there is none) are watched. Both
  /// outlive it.
  void begin(const FlatBuffers& trained, const FlatBuffers* frozen, Writable writable);
  /// Throws Error if a tensor lies elsewhere by now, so that the model would read what nobody
  /// updates, if requires_grad of one was changed, or if the program wrote a parameter that is a
  /// copy of what is updated.
  void check();

  /// A step's backwards are done. Remembers two elements of each .grad and of each parameter, on
  /// the CPU alone: clip_grad_norm_() and torch::optim::SGD write past version counters.
  void backward_done();
  /// The model ran meanwhile: units that are gathered to be used may lie in other places.
  void model_ran();
  /// The step ends in `where`. `dropped`: without an update of ours, so that a program's own may
  /// have been. Throws Error if .grad was written meanwhile, and a parameter, where that is lost or
  /// makes ranks differ.
  void check_end(const char* where, bool dropped);

 private:
  struct Sample {
    const void* memory = nullptr;
    std::array<std::uint32_t, 2> bits = {};
    bool operator==(const Sample&) const = default;
  };
  struct Watched {
    const FlatBuffers* buffers = nullptr;
    int index = 0;  // in these
    bool trained = true;
    bool updated = true;    // what the model reads is what the optimizer updates
    bool compared = false;  // at the step's end: what is written is lost, or not alike
    const void* memory = nullptr;
    std::int64_t version = 0;  // when it was last looked at
    Sample gradient = {}, values = {};
  };
  static Sample sample_of(const at::Tensor& tensor);

  std::vector<Watched> all_;
  Writable writable_;
  bool sampled_ = false;
};

}  // namespace ddprun
