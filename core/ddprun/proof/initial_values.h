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
  explicit InitialValues(const std::vector<NamedTensor>& parameters);

  /// After the strategy's setup: a trained parameter of which this rank owns elements that are not
  /// what rank 0 kept, rounded to its dtype, on the first rank that has one, in words. Empty: there
  /// is none. All ranks call it.
  std::string find_changed(const DataParallel& data_parallel, ProcessGroup& group) const;

 private:
  struct Drawn {
    std::string name;
    Range run;               // of its elements
    std::int64_t begin = 0;  // in kept_
  };

  std::vector<Drawn> drawn_;
  at::Tensor kept_;  // in float32
};

}  // namespace ddprun
