// A kind of experiment, as results and reports know it: its name and its quantities. A quantity is
// declared once; files, statistics, tables and docs follow from the declaration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class RunStatistics;
struct Finding;
struct Run;

/// How the ranks' samples of a step combine to the step's value.
enum class OverRanks : std::uint8_t { mean, max, sum };

/// How the values of a run's steps combine to the run's figure.
enum class OverSteps : std::uint8_t {
  median,  // of the measured steps
  mean,    // of the measured steps
  std,     // the standard deviation of the measured steps
  p99,     // the 99th percentile of the measured steps
  number,  // how many measured steps there are
  sum,     // of all steps, warm-up included
  ends,    // the first and the last step, warm-up included, that have a value
  count,   // how many steps, warm-up included, have a value other than 0
};

/// How a value is written in JSON and CSV. Integers are exact up to 2^53.
enum class Written : std::uint8_t { number, integer, boolean };

/// A figure of a run that follows from other quantities. In the table `words` stand behind the
/// value. If there is no value, they say why.
struct Figure {
  std::optional<double> value = {};
  std::string words = {};
};

/// There are five sorts of quantities. One without `of`, `of_work`, `follows` and `compares` is
/// measured in each sample. One with `of` combines a measured quantity in another way. One with
/// `of_work` is known before the run. One with `follows` is a function of the run. One with
/// `compares` compares the run with the other runs of a table.
struct Quantity {
  /// Its name in result.json and steps.csv. The unit is part of it: "forward_ms".
  std::string key = {};
  std::string unit = {};
  Written written = Written::number;
  /// Whether a sample may lack it. A quantity that is not optional is 0 until it is set.
  bool optional = false;
  const Quantity* of = nullptr;
  OverRanks over_ranks = OverRanks::mean;
  OverSteps over_steps = OverSteps::median;
  /// The key of its value in Run::work, which may lack it. A run whose memory ran out has it too.
  std::string of_work = {};
  std::function<Figure(const RunStatistics& run)> follows = {};
  /// `runs`: all measured runs of this kind in the table, in its order.
  std::function<Figure(const RunStatistics& run, const std::vector<const RunStatistics*>& runs)>
      compares = {};

  /// The title of its column in the table; empty if it has no column.
  std::string title = {};
  /// On a narrow terminal the column with the highest number is dropped first; 0 stays.
  int drop_order = 0;
  /// Whether the cell shows the standard deviation beside the median.
  bool spread = false;
  /// Whether it is a speed or a time, which is withheld if ranks shared a device.
  bool timed = true;
  /// Formats the cell. If it is empty, OverSteps decides; a median then gets enough decimals to
  /// show three digits of the largest value of its column, and more to read as zero only if it is.
  std::function<std::string(double value)> text = {};

  /// For docs/measurement.md: what a sample is, if the quantity is measured; else the formula.
  std::string meaning = {};
  /// For docs/measurement.md: what else a reader of the column should know.
  std::string remark = {};
  /// What may help if the value is not finite. If this is given, a run with a value that is not
  /// finite has diverged. If it is empty, any value is allowed.
  std::string if_not_finite = {};
  /// For OverSteps::count: what the counted steps did, for a line below the table.
  std::string if_counted = {};

  /// Its index among the quantities of its kind.
  std::size_t index = 0;

  bool measured() const { return of == nullptr && of_steps(); }
  /// Whether it has a value in each step.
  bool of_steps() const { return of_work.empty() && !follows && !compares; }
};

/// Returns a function that formats a cell: `value` times `factor` in a format of fmt, such as
/// "{:.1f} %". What is not zero gets as many decimals, four at most, as keep it from reading as
/// zero.
std::function<std::string(double value)> text_as(std::string format, double factor = 1);

/// A share in whole percent. Less than all does not read as 100, and more than nothing not as 0.
std::string percent_text(double share);

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
