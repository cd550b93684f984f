// How a file's table is made, the YAML section `report:`, and with which row of its sweep a row is
// compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/config/config_node.h"
#include "ddprun/config/sweep.h"

namespace ddprun {

class ExperimentKind;
class Options;

/// `report.pivot:` figures by two sorts of swept keys, as write-ups have them. All three, or none.
struct PivotConfig {
  std::vector<std::string> rows, columns;  ///< swept keys
  std::vector<std::string> value;          ///< titles of columns of the table

  bool empty() const { return value.empty(); }
};

struct ReportConfig {
  /// Runs of each row, in turns: of all rows once, then of all again. Where open(), at most.
  std::int64_t repeats = 1;
  /// Half the width of the 95 % interval of rows' differences, as a share, with which no other turn
  /// begins; 0: they all do.
  double until = 0;
  /// After which no other turn begins; 0: they all do.
  double minutes = 0;
  bool open() const { return until > 0 || minutes > 0; }
  /// With fewer turns the width is not asked. Of three it is narrow by chance, a quarter of what it
  /// should be, in one table of sixteen; of six in one of 400.
  static constexpr std::int64_t kLeastForWidth = 6;
  static constexpr std::int64_t kMostOpen = 30;  ///< repeats of a file that is open and names none
  /// Whether rows that others are compared with run twice in each round, to see what chance alone
  /// does, from Comparison::kLeastRuns repeats on.
  bool aa = true;
  /// Titles, for Markdown and LaTeX; empty: of Markdown all, of LaTeX what fits a page.
  std::vector<std::string> columns;
  /// Rows of the table, 1 is the first; empty: those that communicate, as far as they fit.
  std::vector<std::int64_t> timeline;
  bool html = false;  ///< whether the result has a page for a browser, report.html
  PivotConfig pivot;  ///< empty: there is none
};

void declare_options(Options& options, ReportConfig& config);

/// Reads it strictly, but for `baseline`, which find_baseline() reads. Throws ConfigError.
ReportConfig read_report(const ConfigNode& document);

/// Holds the section against the sweep and the table of that kind, and writes out in full the
/// pivot's keys, of which a last part is enough, and titles, for which a quantity's key may stand.
/// Throws ConfigError for a row, a column or a swept key that is not there, and for a pivot that
/// does not name each swept key once.
void complete_report(ReportConfig& config, const ConfigNode& document, const ExperimentKind& kind,
                     const std::vector<SweptValues>& points);

/// What `report.baseline` is for, in a line.
inline constexpr const char* kBaselineHelp =
    "the rows that speed-ups count from; empty: the last swept key at its first value";

struct Baseline {
  /// Of each point, the index of its base, which may be itself. Empty: nothing is swept, so that
  /// there is nothing to compare with.
  std::vector<std::size_t> of_point = {};
  /// What the bases are: "precision=fp32 of the same model.preset".
  std::string words = {};
};

/// The base of a point is the point with the same values but for the last swept key, which has its
/// first value. `report: {baseline: {precision: fp32}}` names other keys and values instead.
/// `points`: all points of the document's sweep. Throws ConfigError if the document names a key
/// that is not swept, or a value that its sweep does not have.
Baseline find_baseline(const ConfigNode& document, const std::vector<SweptValues>& points);

}  // namespace ddprun
