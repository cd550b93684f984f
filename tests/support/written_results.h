// What a report writes part by part, whole.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/csv_files.h"
#include "runner/report/result_files.h"

namespace ddprun::test {

/// All that `tell` gives to its sink.
template <typename Tell>
std::string all_of(const Tell& tell) {
  std::string text;
  tell([&text](std::string_view part) { text += part; });
  return text;
}

inline nlohmann::json row_json(const Row& row) {
  return nlohmann::json::parse(all_of([&](const TextSink& sink) { write_row_json(row, sink); }));
}

inline nlohmann::json result_json(const ResultContext& context, const TableLines& table) {
  return nlohmann::json::parse(
      all_of([&](const TextSink& sink) { write_result_json(context, table, sink); }));
}

inline std::string steps_csv(const std::vector<Row>& rows) {
  return all_of([&](const TextSink& sink) { write_steps_csv(rows, sink); });
}

}  // namespace ddprun::test
