// A kind of experiment, as results and reports know it: its name and its quantities.
#pragma once

#include <deque>
#include <string>

#include "ddprun/result/quantity.h"

namespace ddprun {

/// Base of a kind. A kind declares each quantity as a member:
///     const Quantity& forward_ms = declare({.key = "forward_ms", .unit = "ms", ...});
/// Each kind has one object, which lives as long as the process.
class ExperimentKind {
 public:
  ExperimentKind(const ExperimentKind&) = delete;
  ExperimentKind& operator=(const ExperimentKind&) = delete;

  /// "training"
  const std::string& name() const { return name_; }
  /// In the order of the table and of steps.csv. The first one is the measured time of a step.
  const std::deque<Quantity>& quantities() const { return quantities_; }
  /// A run in a few words: "31.2 ms/step, loss 2.500".
  virtual std::string in_short(const RunStatistics& run) const = 0;

 protected:
  explicit ExperimentKind(std::string name) : name_(std::move(name)) {}
  virtual ~ExperimentKind() = default;
  const Quantity& declare(Quantity quantity);

 private:
  std::string name_;
  std::deque<Quantity> quantities_;  // not a vector: references to them stay valid
};

/// The samples and the figures of a kind as two tables for docs/measurement.md.
std::string samples_markdown(const ExperimentKind& kind);
std::string figures_markdown(const ExperimentKind& kind);

}  // namespace ddprun
