// Results that are on the disk, and rows of one beside the same rows of another one.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/comparison.h"
#include "ddprun/result/conditions.h"
#include "runner/report/row.h"

namespace ddprun {

struct StoredResult {
  std::string name;  ///< as the user named it
  std::filesystem::path file;
  std::size_t among = 0;  ///< results in the folder that the user named; 0: it is one itself
  std::vector<Row> rows;
  nlohmann::json json = {};  ///< the whole file
};

/// Reads a result.json, that of a result folder, or the latest of a folder of results. Throws
/// ConfigError if there is none, it has no row, is of another schema, or this ddprun could not have
/// written it.
StoredResult stored_result(const std::string& path);

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
  /// (Bonferroni). untold: fewer than three runs, such that differ too much, or none that count.
  Held held(const ComparedRow& row) const;
  /// Of all rows, those that the second lacks included. A slower row counts most.
  Held held() const;
};

/// Throws ConfigError if they have no row in common.
ResultComparison compare_results(const StoredResult& first, const StoredResult& second,
                                 std::optional<double> threshold = {});

/// In words and a table; Markdown as a comment on GitHub has it. Where lines are longer than
/// `width` (0: no limit), rows' names lose their keys.
std::string comparison_text(const ResultComparison& comparison, bool markdown, int width);
nlohmann::json to_json(const ResultComparison& comparison);

}  // namespace ddprun
