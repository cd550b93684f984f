// The data of a page, and its place in it.
#include "runner/html/html_report.h"

#include <boost/algorithm/string/replace.hpp>
#include <stdexcept>

#include "ddprun/base/choice.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/text.h"
#include "ddprun/profile/memory_files.h"
#include "runner/report/memory_table.h"
#include "runner/report/operator_tables.h"
#include "runner/report/report_lines.h"
#include "runner/report/report_table.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr std::string_view kDataHere = "{{data}}";
constexpr std::size_t kMostPictures = 8;  ///< of memory, some 40 kB each

json cell_json(const TextTable::Cell& cell) {
  json out = {{"text", cell.text}};
  if (cell.colour == Colour::green) out["mood"] = "good";
  if (cell.colour == Colour::yellow) out["mood"] = "odd";
  if (cell.colour == Colour::red) out["mood"] = "bad";
  return out;
}

json text_table_json(const TextTable& table) {
  const auto column = [](const TextTable::Column& of) {
    return json{{"title", of.title}, {"number", of.right_aligned}};
  };
  json lines = json::array();
  for (const TextTable::Line& line : table.lines) {
    lines.push_back({{"cells", mapped(line.cells, cell_json)}});
    if (!line.note.text.empty()) lines.back()["note"] = cell_json(line.note);
  }
  return {{"columns", mapped(table.columns, column)}, {"lines", std::move(lines)}};
}

/// In what a table's cells show it.
std::string shown_unit(const Quantity& of) {
  const bool percents = of.unit == "fraction" && of.text && of.text(1).starts_with("100");
  return percents ? "%" : of.unit;
}

json kind_json(const ExperimentKind& kind) {
  const auto words = [](const Quantity& of) {
    return json{{"key", of.key},     {"unit", of.unit},       {"shown", shown_unit(of)},
                {"title", of.title}, {"meaning", of.meaning}, {"remark", of.remark}};
  };
  return {{"note", kind.words().table_note},
          {"checks", kind.words().checks},
          {"quantities", mapped(kind.quantities(), words)}};
}

/// Tables that stand below the first one, each with its sentences, where rows recorded them.
json further_tables(const TableLines& table) {
  json out = json::array();
  const auto add = [&out](const char* what, const TextTable& lines,
                          const std::vector<std::string>& words) {
    if (lines.lines.empty()) return;
    out.push_back({{"what", what}, {"table", text_table_json(lines)}, {"words", words}});
  };
  add("memory by phase", memory_table(table), memory_remarks(table));
  add("memory by category", memory_category_table(table), saved_words(table));
  add("operators by kind", operator_sum_table(table), operator_words(table));
  add("operators", operator_table(table), {});
  return out;
}

/// Of each run in order: the milliseconds of each kind of operator; null where none were recorded.
json operator_times(const TableLines& table) {
  json out = json::array();
  for (const Row& row : table.rows()) {
    json& times = out.emplace_back();
    if (!row.measured()) continue;
    for (const OperatorSum& sum : row.ranks.front().operators.sums()) {
      times[name_of(sum.kind)] = static_cast<double>(sum.ns) * 1e-6;
    }
  }
  return out;
}

/// The lines whose timelines the result chose, as far as it has them.
std::vector<std::int64_t> drawn_lines(const json& result, std::size_t count) {
  std::vector<std::int64_t> out;
  for (const json& number : result.value(kDrawnLines, json::array())) {
    if (!number.is_number_integer()) continue;
    const auto line = number.get<std::int64_t>();
    if (line >= 1 && line <= static_cast<std::int64_t>(count)) out.push_back(line);
  }
  return out;
}

/// Charts have the colours of the picture, and its order.
json memory_colours() {
  return mapped(kChoices<MemoryCategory>, [](MemoryCategory each) {
    return json::array({name_of(each), colour_of(each)});
  });
}

/// The picture of the memory of the row's ranks, as they wrote it; empty: there is none.
std::string memory_picture(const Row& row, const std::filesystem::path& folder) {
  if (!row.measured() || !row.ranks.front().memory_peak.recorded()) return {};
  try {
    return read_whole(folder / kMemoryPicture);
  } catch (const std::runtime_error&) {
    return {};  // result.json was moved without it, or the row was taken over from another result
  }
}

/// By the index of the run: of each line the first that has one.
json memory_pictures(const TableLines& table, const std::filesystem::path& folder) {
  json out = json::object();
  for (const TableLine& line : table.lines()) {
    for (std::size_t i = line.first; i < line.first + line.count; ++i) {
      if (out.size() == kMostPictures) return out;
      std::string picture = memory_picture(table.rows()[i], folder / row_folder(i + 1));
      if (picture.empty()) continue;
      out[std::to_string(i)] = std::move(picture);
      break;
    }
  }
  return out;
}

}  // namespace

json page_of_result(const TableLines& table, json result, const std::string& place,
                    const std::filesystem::path& folder) {
  for (json& row : result.at("rows")) {
    for (json& rank : row.at("ranks")) rank.erase("timeline");
  }
  json kinds = json::object(), lines = json::array();
  for (const ExperimentKind* kind : kinds_of(table.rows())) kinds[kind->name()] = kind_json(*kind);
  for (const ReportLine& line : report_lines(table)) {
    lines.push_back({{"text", line.text}, {"bad", line.bad}, {"finding", line.finding}});
  }
  const auto words = result.value("command_line", std::vector<std::string>());
  return {{"place", place},
          {"command", list_text(mapped(words, shell_word), " ")},
          {"kinds", std::move(kinds)},
          {"lines", std::move(lines)},
          {"table", text_table_json(report_table(table))},
          {"further", further_tables(table)},
          {"operators", operator_times(table)},
          {"timeline", timeline_picture(table, drawn_lines(result, table.lines().size()))},
          {"memory", memory_pictures(table, folder)},
          {"memory_colours", memory_colours()},
          {"result", std::move(result)}};
}

std::string html_page(const std::vector<json>& results) {
  std::string data = json_text(results);
  boost::replace_all(data, "<", "\\u003c");  // so that no text of it ends the element, or hides it
  const std::string_view page = page_template();
  const std::size_t at = page.find(kDataHere);
  std::string out(page.substr(0, at));
  return out.append(data).append(page.substr(at + kDataHere.size()));
}

std::string html_of_run(const ResultContext& context, const TableLines& table,
                        const std::filesystem::path& folder) {
  std::string text;
  write_result_json(context, table, [&text](std::string_view part) { text += part; });
  return html_page({page_of_result(table, parse_json(text), "", folder)});
}

}  // namespace ddprun
