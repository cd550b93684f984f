// What several runs of a kind say together.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ddprun {

struct Finding {
  /// A sentence below the table; empty: its numbers alone are kept.
  std::string text;
  /// The numbers of the sentence, for result.json; null: it has none.
  nlohmann::json value = nullptr;
  /// The experiment whose rows it is of; empty: of all rows.
  std::string experiment = {};
};

}  // namespace ddprun
