// From the samples of all ranks to the figures of a run.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "ddprun/measure/statistics.h"
#include "ddprun/result/run.h"

namespace ddprun {

/// A quantity that has a value in every step, over the steps of a run.
struct OverRun {
  /// Over the measured steps.
  Summary steps = {};
  /// Of the very first step, warm-up included, and of the last.
  double first = 0, last = 0;
  /// Steps, warm-up included, in which it was not 0.
  std::int64_t count = 0;
};

class RunStatistics {
 public:
  /// `run` is measured and outlives this. Throws std::invalid_argument if its ranks do not have the
  /// same steps, or none was measured.
  explicit RunStatistics(const Run& run);

  const Run& run() const { return *run_; }
  /// Whether its times mean something.
  bool timed() const { return !run_->emulated; }

  /// Of a quantity of steps.
  const OverRun& operator[](const Quantity& quantity) const { return over_run_[quantity.index]; }
  /// Each rank's own steps: of the kind's first quantity.
  std::vector<Summary> rank_steps() const;
  /// The one figure of any quantity that compares nothing.
  Figure figure(const Quantity& quantity) const;

 private:
  OverRun over_run(const Quantity& quantity) const;

  const Run* run_;
  std::vector<OverRun> over_run_;  // one a quantity
};

/// A summary, two ends, a number or null for each quantity that compares nothing, by its key;
/// besides `no_KEY`, why a figure is missing, and `rank_KEY`, each rank's own steps.
nlohmann::json to_json(const RunStatistics& statistics);

}  // namespace ddprun
