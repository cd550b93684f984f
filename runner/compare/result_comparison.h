// Rows of one result beside the same rows of another one.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/comparison.h"
#include "ddprun/result/conditions.h"
#include "runner/compare/stored_result.h"

namespace ddprun {

/// Whether a row is slower than a threshold allows. `untold`: nobody can say.
enum class Held { yes, slower, untold };
constexpr auto choice_names(Held) { return std::array{"yes", "slower", "untold"}; }

/// A row of the first result beside the same one, by its fingerprint, of the second.
struct ComparedRow {
  std::string name;
  std::string figure;  ///< what is compared: "step ms"
  /// Of the second's runs with the first's; nothing: one of them has no figures that count.
  std::optional<Comparison> comparison = {};
  std::string reason = {};  ///< why there is none
};

struct ResultComparison {
  std::string first, second;                ///< names of the results
  bool same = false;                        ///< they are one file
  std::vector<Difference> conditions = {};  ///< that are not the same in them, each once
  std::vector<ComparedRow> rows = {};
  std::vector<std::string> only_first = {}, only_second = {};  ///< names of rows
  std::optional<double> threshold = {};                        ///< 0.03: rows may be slower by 3 %

  /// slower: the interval of the row's ratio lies above the threshold, with a confidence of which
  /// one row in twenty results that are not slower says so, however many rows there are
  /// (Bonferroni). untold: fewer than three runs, or none that count.
  Held held(const ComparedRow& row) const;
  /// Of all rows, those that the second lacks included. A slower row counts most.
  Held held() const;
};

/// Throws ConfigError if they have no row in common.
ResultComparison compare_results(const StoredResult& first, const StoredResult& second,
                                 std::optional<double> threshold = {});

/// In words and a table; Markdown as a comment on GitHub has it.
std::string comparison_text(const ResultComparison& comparison, bool markdown, int width);
nlohmann::json to_json(const ResultComparison& comparison);

}  // namespace ddprun
