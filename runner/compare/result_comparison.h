// Rows of one result beside the same rows of another one.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/comparison.h"
#include "ddprun/result/conditions.h"
#include "runner/compare/stored_result.h"

namespace ddprun {

/// A row that both have, by its fingerprint.
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

  /// Rows whose second runs are slower than `threshold` (0.03: by 3 %) beyond noise: the interval
  /// lies above it.
  std::vector<const ComparedRow*> slower_than(double threshold) const;
};

/// Throws ConfigError if they have no row in common.
ResultComparison compare_results(const StoredResult& first, const StoredResult& second);

/// In words and a table; Markdown as a comment on GitHub has it.
std::string comparison_text(const ResultComparison& comparison, bool markdown, int width);
nlohmann::json to_json(const ResultComparison& comparison);

}  // namespace ddprun
