// What several runs of a kind say together.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/result/comparison.h"

namespace ddprun {

/// Where a sentence has the verdict of its next test.
inline constexpr char kVerdictHere = '\x01';

struct Finding {
  /// A sentence below the table; empty: its numbers alone are kept.
  std::string text;
  /// The numbers of the sentence, for result.json; null: it has none.
  nlohmann::json value = nullptr;
  /// What the sentence claims, in the order of its verdicts. `value` has the numbers of the first.
  std::vector<Comparison> tests = {};
  /// The experiment whose rows it is of; empty: of all rows.
  std::string experiment = {};
};

/// Corrects the tests of all sentences together (Holm), and writes their verdicts into the texts
/// and the numbers into the values. Returns how many tests these were.
std::size_t settle(std::vector<Finding>& findings);

}  // namespace ddprun
