// A kind of experiment, as results and reports know it: its name and its quantities.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/result/quantity.h"

namespace ddprun {

struct Finding;
struct Run;

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
  /// What tells this run from others of its kind, in words, as columns of the table before the
  /// figures: a title and a text each. A run that lacks a title of others has no value in its
  /// column. `run` is measured.
  virtual std::vector<std::pair<std::string, std::string>> facts(const Run& run) const;
  /// What a check means that has passed: "parameters equal on all ranks at the end".
  virtual std::string in_words(const std::string& check) const;
  /// What the table's figures are, in a sentence below it.
  virtual std::string table_note() const;
  /// What may help a run whose memory ran out: "a smaller batch, context or model".
  virtual std::string memory_hint() const;
  /// What the measured runs of this kind say together.
  virtual std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const;

 protected:
  explicit ExperimentKind(std::string name) : name_(std::move(name)) {}
  virtual ~ExperimentKind() = default;
  const Quantity& declare(Quantity quantity);

 private:
  std::string name_;
  std::deque<Quantity> quantities_;  // not a vector: references to them stay valid
};

/// What a sample holds, in order: runs of kinds that differ in it cannot be compared.
std::string schema_text(const ExperimentKind& kind);

}  // namespace ddprun
