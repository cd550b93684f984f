// Computes the figures of a run from the samples of all ranks.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ddprun/measure/statistics.h"
#include "ddprun/result/run.h"

namespace ddprun {

/// A quantity that has a value in each step, combined over the steps of a run.
struct OverRun {
  /// Over the measured steps.
  Summary steps = {};
  /// Of the steps that have a value, warm-up included, the first and the last; NaN: none has.
  double first = std::numeric_limits<double>::quiet_NaN(), last = first;
  /// How many these are.
  std::int64_t values = 0;
  /// The number of steps, warm-up included, in which it was not 0.
  std::int64_t count = 0;
  /// Of all steps, warm-up included.
  double sum = 0;
};

/// The figure of a quantity with `of_work`.
Figure figure_of_work(const Run& run, const Quantity& quantity);

class RunStatistics {
 public:
  /// `run` is measured and outlives this object. `name`: what a sentence calls its row. Throws
  /// std::invalid_argument if its ranks do not have the same steps, or if no step was measured.
  explicit RunStatistics(const Run& run, std::string name = {});

  const Run& run() const { return *run_; }
  const std::string& name() const { return name_; }
  /// Whether its times mean something.
  bool timed() const { return !run_->emulated; }

  /// For a quantity with of_steps().
  const OverRun& operator[](const Quantity& quantity) const { return over_run_[quantity.index]; }
  /// Of that one, over the steps.
  double median(const Quantity& quantity) const { return (*this)[quantity].steps.median; }
  /// The kind's first quantity over each rank's own steps.
  std::vector<Summary> rank_steps() const;
  /// The figure of a quantity, of any sort but those with `compares`.
  Figure figure(const Quantity& quantity) const;

 private:
  OverRun over_run(const Quantity& quantity) const;

  const Run* run_;
  std::string name_;
  std::vector<OverRun> over_run_;  // one a quantity
};

/// For each quantity without `compares`, by its key: a summary, two ends, a number or null.
/// `no_KEY` says why a figure is missing. `rank_KEY` has each rank's own steps.
nlohmann::json to_json(const RunStatistics& statistics);

}  // namespace ddprun
