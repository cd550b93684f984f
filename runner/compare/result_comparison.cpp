// Finds a result.json and reads its rows. What differs is said first, then how far times are apart.
#include "runner/compare/result_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "runner/report/earlier_rows.h"
#include "runner/report/report_table.h"
#include "runner/report/result_files.h"
#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

namespace {

using nlohmann::json;

const TableLine* line_of(const TableLines& table, const std::string& fingerprint) {
  for (const TableLine& line : table.lines()) {
    if (table.rows()[line.first].fingerprint == fingerprint) return &line;
  }
  return nullptr;
}

/// Why the row's times do not count; empty: they do.
std::string flaw_of(const Row& row) {
  if (!row.ok()) return fmt::format("{}: {}", name_of(row.status), first_line(row.reason));
  return row.emulated ? "its ranks shared a GPU" : "";
}

std::string flaw_of(const TableLines& table, const TableLine& line) {
  for (std::size_t i = line.first; i < line.first + line.count; ++i) {
    if (std::string flaw = flaw_of(table.rows()[i]); !flaw.empty()) return flaw;
  }
  return {};
}

ComparedRow compared(const TableLines& first, const TableLine& own, const TableLines& second,
                     const TableLine& other) {
  const ExperimentKind& kind = *first.rows()[own.first].kind;
  const Quantity& time = kind.quantities().front();
  ComparedRow out{.name = first.in_sentence(own), .figure = time.title};
  for (const auto& [table, line, which] :
       {std::tuple(&first, &own, "first"), std::tuple(&second, &other, "second")}) {
    const std::string flaw = flaw_of(*table, *line);
    if (!flaw.empty()) out.reason = fmt::format("the {} one is not ok ({})", which, flaw);
  }
  if (out.reason.empty()) {
    out.comparison = compare(run_figures(other.runs, time), run_figures(own.runs, time));
  }
  return out;
}

void add_conditions(const Row& first, const Row& second, std::vector<Difference>& out) {
  for (Difference& each : differences(first.conditions, second.conditions)) {
    const bool known = std::ranges::any_of(out, [&each](const Difference& other) {
      return std::tie(each.name, each.first, each.second) ==
             std::tie(other.name, other.first, other.second);
    });
    if (!known) out.push_back(std::move(each));
  }
}

std::vector<std::string> lacking(const TableLines& table, const TableLines& other) {
  std::vector<std::string> out;
  for (const TableLine& line : table.lines()) {
    if (line_of(other, table.rows()[line.first].fingerprint) == nullptr) {
      out.push_back(table.in_sentence(line));
    }
  }
  return out;
}

TextTable table_of(const ResultComparison& of) {
  TextTable table;
  table.columns = {{"row", false}, {"figure", false}, {"first"}, {"second"}, {"the second", false}};
  for (const ComparedRow& row : of.rows) {
    if (!row.comparison) {
      table.lines.push_back({{{row.name}, {row.figure}}, {"not compared: " + row.reason}});
      continue;
    }
    const Comparison& c = *row.comparison;
    const auto mean = [](const std::vector<double>& values) {
      return fmt::format("{:.2f}", summarize(values).mean);
    };
    table.add({row.name, row.figure, mean(c.base), mean(c.own),
               words_of_times(c) + " the first" + verdict(c)});
  }
  return table;
}

/// In Markdown it can be folded away, and what would be markup is none.
std::string conditions_text(const ResultComparison& of, bool markdown) {
  if (of.same) return "Both are one and the same result.\n";
  if (of.conditions.empty()) return "Both were measured under the same conditions.\n";
  const auto word = [markdown](const std::string& text) {
    std::string line = printable_line(text);
    if (!markdown) return line;
    std::ranges::replace(line, '`', '\'');
    return "`" + line + "`";
  };
  const std::string title = "What differs, so that it may be the cause";
  std::string out =
      markdown ? fmt::format("<details open><summary>{}</summary>\n\n", title) : title + ":\n";
  for (const auto& [name, first, second] : of.conditions) {
    out += fmt::format("- {}: {}, and {}\n", word(name), word(first), word(second));
  }
  return out + (markdown ? "\n</details>\n" : "");
}

/// Why nobody can say whether the row is slower than the threshold allows.
std::string why_untold(const ComparedRow& row) {
  if (!row.comparison) return row.reason;
  if (std::min(row.comparison->own.size(), row.comparison->base.size()) < Comparison::kLeastRuns) {
    return "it takes 3 runs or more of each (report.repeats)";
  }
  return "its runs differ too much for an interval: more of them (report.repeats), or a quieter "
         "machine";
}

/// What the threshold says, a line each; empty: there is none.
std::string threshold_text(const ResultComparison& of) {
  if (!of.threshold) return {};
  std::string out;
  for (const ComparedRow& row : of.rows) {
    const Held held = of.held(row);
    if (held == Held::slower) {
      out += fmt::format("slower by more than {:.3g} %: {}{}\n", *of.threshold * 100, row.name,
                         verdict(*row.comparison));
    } else if (held == Held::untold) {
      out += fmt::format("not held against the threshold: {}: {}\n", row.name, why_untold(row));
    }
  }
  for (const std::string& name : of.only_first) {
    out += fmt::format("not held against the threshold: {}: the second result lacks it\n", name);
  }
  if (!out.empty()) return "\n" + out;
  return fmt::format("\nNo row is slower by more than {:.3g} %, beyond noise.\n",
                     *of.threshold * 100);
}

namespace fs = std::filesystem;

constexpr const char* kLatest = "latest";

struct FolderContents {
  fs::path newest = {};     ///< its result.json, or that of its latest result; empty: none
  std::size_t results = 0;  ///< in folders of it; 0 too if it is one itself
  std::vector<fs::path> deeper = {};  ///< folders in it that hold results
};

bool is_result(const fs::path& folder) { return fs::exists(folder / kResultFile); }

/// The folders in this one that are results, which are named by time; without `latest`, which is a
/// link to one, where the file system has links.
std::vector<fs::path> results_in(const fs::path& folder) {
  std::vector<fs::path> results;
  std::error_code ignored;  // what cannot be read is none
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const bool result = fs::exists(entry.path() / kResultFile, ignored);
    if (result && entry.path().filename() != kLatest) results.push_back(entry);
  }
  return results;
}

FolderContents contents_of(const fs::path& folder) {
  if (is_result(folder)) return {folder / kResultFile};
  const std::vector<fs::path> results = results_in(folder);
  FolderContents out{.results = results.size()};
  if (is_result(folder / kLatest)) {
    out.newest = folder / kLatest / kResultFile;
  } else if (!results.empty()) {
    out.newest = std::ranges::max(results) / kResultFile;
  }
  if (!out.newest.empty()) return out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!results_in(entry).empty()) out.deeper.push_back(entry);
  }
  return out;
}

[[noreturn]] void throw_no_result(const std::string& path, bool folder,
                                  const std::vector<fs::path>& deeper) {
  std::string got = folder ? "a folder without a result.json" : "nothing of that name";
  std::string hint = "a run writes to results/NAME/TIME, and results/NAME/latest is the last";
  std::error_code ignored;
  if (fs::is_directory(fs::path(path) / kRowsFolder, ignored)) {
    got = "the rows of a run that goes on, or was ended";
    hint = "--resume takes over those that are done";
  }
  if (!deeper.empty()) {
    got = fmt::format("a folder of folders of results, {} of them", deeper.size());
    hint = "name one or more of them: " + std::ranges::min(deeper).string();
  }
  throw ConfigError({.what = "there is no result",
                     .where = path,
                     .got = got,
                     .expected = "a result.json, a result's folder, or a folder of results",
                     .hint = hint});
}

}  // namespace

Held ResultComparison::held(const ComparedRow& row) const {
  if (!threshold || !row.comparison) return Held::untold;
  const double doubt = Comparison::kNoise / static_cast<double>(rows.size());
  const auto interval = interval_of(*row.comparison, 1 - doubt);
  if (!interval) return Held::untold;
  return interval->low > 1 + *threshold ? Held::slower : Held::yes;
}

Held ResultComparison::held() const {
  Held out = only_first.empty() ? Held::yes : Held::untold;
  for (const ComparedRow& row : rows) {
    const Held one = held(row);
    if (one == Held::slower) return one;
    if (one == Held::untold) out = one;
  }
  return out;
}

ResultComparison compare_results(const StoredResult& first, const StoredResult& second,
                                 std::optional<double> threshold) {
  const TableLines own(first.rows), other(second.rows);
  ResultComparison out{.first = first.name, .second = second.name, .threshold = threshold};
  std::error_code ignored;
  out.same = std::filesystem::equivalent(first.file, second.file, ignored);
  for (const TableLine& line : own.lines()) {
    const Row& row = first.rows[line.first];
    const TableLine* const found = line_of(other, row.fingerprint);
    if (row.kind == nullptr || found == nullptr) continue;
    out.rows.push_back(compared(own, line, other, *found));
    add_conditions(row, second.rows[found->first], out.conditions);
  }
  out.only_first = lacking(own, other);
  out.only_second = lacking(other, own);
  if (!out.rows.empty()) return out;
  throw ConfigError(
      {.what = "the results have no row in common",
       .where = first.name + ", " + second.name,
       .got = fmt::format("{} and {} rows of other experiments", own.lines().size(),
                          other.lines().size()),
       .expected = "rows of the same experiment: all keys but name, output and plugin_path",
       .hint = "`ddprun explain RESULT` shows what is in one"});
}

std::string comparison_text(const ResultComparison& of, bool markdown, int width) {
  const TextTable table = table_of(of);
  std::string out = fmt::format("{}{}, then {}\n\n", markdown ? "### " : "",
                                printable_line(of.first), printable_line(of.second));
  out += conditions_text(of, markdown) + "\n";
  // Names are not cut: lines end in a sentence, which is most of their width.
  out += markdown ? table.markdown() : with_names_for(table, width).render(0, false);
  for (const auto& [names, which] :
       {std::pair(&of.only_first, "first"), std::pair(&of.only_second, "second")}) {
    if (!names->empty()) {
      out += fmt::format("\nonly the {} has: {}\n", which, fmt::join(*names, ", "));
    }
  }
  return out + threshold_text(of);
}

json to_json(const ResultComparison& of) {
  json conditions = json::array(), rows = json::array();
  for (const auto& [name, first, second] : of.conditions) {
    conditions.push_back({{"name", name}, {"first", first}, {"second", second}});
  }
  for (const ComparedRow& row : of.rows) {
    json each = row.comparison ? to_json(*row.comparison) : json::object();
    each["row"] = row.name;
    each["figure"] = row.figure;
    if (of.threshold) each["held"] = name_of(of.held(row));
    if (!row.reason.empty()) each["reason"] = row.reason;
    rows.push_back(std::move(each));
  }
  json out = {{"first", of.first},
              {"second", of.second},
              {"conditions", std::move(conditions)},
              {"rows", std::move(rows)},
              {"only_first", of.only_first},
              {"only_second", of.only_second}};
  if (of.threshold) {
    out["threshold"] = *of.threshold;
    out["held"] = name_of(of.held());
  }
  return out;
}

StoredResult stored_result(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is not there
  const bool folder = fs::is_directory(path, ignored);
  const FolderContents contents = folder ? contents_of(path) : FolderContents{path};
  const fs::path& file = contents.newest;
  if (file.empty() || !fs::exists(file, ignored)) throw_no_result(path, folder, contents.deeper);
  WholeResult whole = whole_result(file);
  StoredResult result = {path, file, contents.results, std::move(whole.rows),
                         std::move(whole.json)};
  if (result.rows.empty()) {
    throw ConfigError({.what = "the result has no rows",
                       .where = file.string(),
                       .got = "0 rows",
                       .expected = "a run that measured something",
                       .hint = "it was interrupted before its first row was done"});
  }
  return result;
}

}  // namespace ddprun
