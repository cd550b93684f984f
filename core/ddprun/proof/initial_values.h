// What a model begins with, whatever plugins do before the first step.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"

namespace ddprun {

/// Some elements of each parameter, kept before a plugin sees the model. Training thread.
class InitialValues {
 public:
  /// `seed`: agreed_seed().
  InitialValues(const std::vector<NamedTensor>& parameters, std::uint64_t seed);

  /// After the strategy's setup: a parameter, frozen or not, of which this rank has elements that
  /// are not what rank 0 kept, rounded to its dtype, on the first rank that has one, in words.
  /// Empty: there is none. All ranks call it.
  std::string find_changed(const DataParallel& data_parallel, ProcessGroup& group) const;
  std::uint64_t seed() const { return seed_; }

 private:
  struct Drawn {
    std::string name;
    Range run;               // of its elements
    std::int64_t begin = 0;  // in kept_
  };

  /// The same of what `buffers` have. `kept`: rank 0's kept_.
  std::string find_changed(const FlatBuffers& buffers, const at::Tensor& kept) const;

  std::uint64_t seed_;
  std::vector<Drawn> drawn_;
  at::Tensor kept_;  // in float32
};

}  // namespace ddprun
