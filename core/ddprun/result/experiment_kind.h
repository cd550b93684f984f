// A kind of experiment, as results and reports know it: its name and its quantities.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/result/quantity.h"

namespace ddprun {

struct Finding;
struct Run;

struct KindWords {
  std::string name;  ///< "training"
  /// What the table's figures are, in a sentence below it.
  std::string table_note = "Figures are medians over the measured steps (± standard deviation)";
  /// What may help a run whose memory ran out.
  std::string memory_hint = "a machine with more memory";
  /// By the name of a check, what it means that it has passed.
  std::map<std::string, std::string> checks = {};
};

/// Base of a kind. A kind declares each quantity as a member:
///     const Quantity& forward_ms = declare("forward_ms", "ms", "from ...", {.title = "forward"});
/// Each kind has one object, which lives as long as the process.
class ExperimentKind {
 public:
  ExperimentKind(const ExperimentKind&) = delete;
  ExperimentKind& operator=(const ExperimentKind&) = delete;

  const KindWords& words() const { return words_; }
  const std::string& name() const { return words_.name; }
  /// In the order of the table and of steps.csv. The first one is the measured time of a step.
  const std::deque<Quantity>& quantities() const { return quantities_; }
  /// A run in a few words: "31.2 ms/step, loss 2.500".
  virtual std::string in_short(const RunStatistics& run) const = 0;
  /// What tells this run from others of its kind, in words, as columns of the table before the
  /// figures: a title and a text each. A run that lacks a title of others has no value in its
  /// column. `run` is measured.
  virtual std::vector<std::pair<std::string, std::string>> facts(const Run& run) const;
  /// What the measured runs of this kind say together.
  virtual std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const;

 protected:
  explicit ExperimentKind(KindWords words) : words_(std::move(words)) {}
  virtual ~ExperimentKind() = default;
  /// `rest`: all but its key, unit and meaning.
  const Quantity& declare(std::string key, std::string unit, std::string meaning,
                          Quantity rest = {});
  const Quantity& declare(Quantity quantity);

 private:
  KindWords words_;
  std::deque<Quantity> quantities_;  // not a vector: references to them stay valid
};

/// What a sample holds, in order: runs of kinds that differ in it cannot be compared.
std::string schema_text(const ExperimentKind& kind);

}  // namespace ddprun
