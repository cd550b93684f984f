// A quantity of an experiment, declared once: files, statistics, tables and docs follow from the
// declaration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class RunStatistics;

/// How a step's value comes from the samples of its ranks.
enum class OverRanks : std::uint8_t { mean, max, min, mean_minus_min };

/// How a run's figure comes from the values of its steps.
enum class OverSteps : std::uint8_t {
  median,  // of the measured steps
  mean,    // of the measured steps
  ends,    // the very first step, warm-up included, and the last one
  count,   // how many steps, warm-up included, have a value other than 0
};

/// How a value is written in JSON and CSV. Integers are exact up to 2^53.
enum class Written : std::uint8_t { number, integer, boolean };

/// A figure of a run that follows from others. `words` stand behind the value in the table, and in
/// place of a missing one they say why it is missing.
struct Figure {
  std::optional<double> value = {};
  std::string words = {};
};

/// Every quantity is one of four: measured in each sample; another combination of a measured one
/// (`of`); a function of the run (`follows`); a comparison with the other runs of a table
/// (`compares`).
struct Quantity {
  /// In result.json and steps.csv. The unit is part of the name: "forward_ms".
  std::string key = {};
  std::string unit = {};
  Written written = Written::number;
  /// A sample may lack it. Others are 0 until they are set.
  bool optional = false;
  const Quantity* of = nullptr;
  OverRanks over_ranks = OverRanks::mean;
  OverSteps over_steps = OverSteps::median;
  std::function<Figure(const RunStatistics& run)> follows = {};
  /// `runs`: all measured runs of this kind in the table, in its order.
  std::function<Figure(const RunStatistics& run, const std::vector<const RunStatistics*>& runs)>
      compares = {};

  /// Of its column in the table; empty: it has none.
  std::string title = {};
  /// On a narrow terminal the highest goes first; 0 stays.
  int drop_order = 0;
  /// Shows the standard deviation beside the median.
  bool spread = false;
  /// A speed or a time: it is withheld where ranks shared a device.
  bool timed = true;
  /// The cell. Empty: OverSteps says it; a median has as many decimals as show three digits of the
  /// largest value of its column.
  std::function<std::string(double value)> text = {};

  /// For docs/measurement.md. Of a measured one: what a sample of it is; of others: the formula.
  std::string meaning = {};
  /// For docs/measurement.md: what a reader of the column should know besides.
  std::string remark = {};
  /// What may help where it is no finite number. Empty: it may be anything. Else a run in which it
  /// is not finite has diverged.
  std::string if_not_finite = {};
  /// OverSteps::count: what the counted steps did, for a line below the table.
  std::string if_counted = {};

  /// Its place among the quantities of its kind.
  std::size_t index = 0;

  bool measured() const { return of == nullptr && !follows && !compares; }
  /// Whether it has a value in every step.
  bool of_steps() const { return !follows && !compares; }
  /// The formula of its figure, in the words of docs/measurement.md.
  std::string formula() const;
};

/// A cell: `value` times `factor` in a format of fmt, "{:.1f} %".
std::function<std::string(double value)> text_as(std::string format, double factor = 1);

}  // namespace ddprun
