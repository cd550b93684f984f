// How parameters are updated: the YAML section `optimizer:`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class Options;

/// `optimizer.schedule.name`: the learning rate after the warm-up.
enum class Schedule { constant, cosine };
constexpr auto choice_names(Schedule) { return std::array{"constant", "cosine"}; }

/// `optimizer.schedule:`
struct ScheduleConfig {
  Schedule name = Schedule::constant;
  std::int64_t warmup_steps = 0;
  double min_lr = 0.0;
};

/// `optimizer.name`
enum class OptimizerKind { adamw, sgd };
constexpr auto choice_names(OptimizerKind) { return std::array{"adamw", "sgd"}; }

/// `optimizer.groups`: other settings for some parameters.
struct ParameterGroup {
  std::string match;                        ///< of names, with wildcards: "*.ln?.weight"
  double lr_scale = 1.0;                    ///< of the step's learning rate
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's
};

/// `optimizer:`
struct OptimizerConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.0;
  double clip_norm = 0.0;  ///< 0: no clipping
  bool overlap = false;    ///< update ranges while others travel
  ScheduleConfig schedule;
  /// A parameter takes the settings of the first that matches it.
  std::vector<ParameterGroup> groups = {};
};

void declare_options(Options& options, OptimizerConfig& config);

}  // namespace ddprun
