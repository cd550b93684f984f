// An optimizer's update by its formula, in float64: what its kernels are held against.
#pragma once

#include <array>
#include <cstdint>

#include "ddprun/optim/optimizer_config.h"
#include "ddprun/optim/parameter_groups.h"

namespace ddprun {

/// What all elements of a parameter are updated by in one step.
struct UpdateRule {
  const OptimizerConfig& config;
  GroupSettings settings = {};
  double lr = 0;              ///< of the step, before lr_scale
  double gradient_scale = 1;  ///< of each gradient
  std::int64_t updates = 1;   ///< with this one
};

/// An element before an update, or after it. `moments`: AdamW's two, the momentum's, or none.
struct UpdatedElement {
  double parameter = 0;
  std::array<double, 2> moments = {};
};

/// The largest relative errors of the dtypes in which these are kept.
struct UpdateRounding {
  double parameter = 0, moments = 0;
};

/// Whether `made` is what AdamW (Loshchilov and Hutter 2019, algorithm 2, with decay times the
/// learning rate) or SGD, as torch.optim has them, makes of `before` and `gradient`, up to the
/// rounding of float32 and of what is kept.
bool follows(const UpdateRule& rule, const UpdatedElement& before, double gradient,
             const UpdatedElement& made, UpdateRounding rounding);

}  // namespace ddprun
