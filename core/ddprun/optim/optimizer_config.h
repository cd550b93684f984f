// How parameters are updated: the YAML section `optimizer:`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

class Options;

/// `optimizer.schedule:`
struct ScheduleConfig {
  std::string name = "constant";  ///< constant | cosine
  std::int64_t warmup_steps = 0;
  double min_lr = 0.0;
};

/// `optimizer:`
struct OptimizerConfig {
  std::string name = "adamw";  ///< adamw | sgd
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.0;
  double clip_norm = 0.0;  ///< 0: no clipping
  bool overlap = false;    ///< update ranges while others travel
  ScheduleConfig schedule;
};

void declare_options(Options& options, OptimizerConfig& config);

}  // namespace ddprun
