// Reads result.json again, and believes only what this ddprun could have written.
#include "runner/report/earlier_rows.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/result/conditions.h"
#include "ddprun/result/plain_json.h"
#include "runner/report/result_files.h"

namespace ddprun {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// A result has no values as deep as this, and reading deeper ones could take all of the stack.
constexpr int kDeepest = 64;

/// A result on the disk: its result.json, or the rows of a batch that was ended before.
struct ResultFiles {
  fs::path folder;
  std::vector<fs::path> files = {};
  bool complete = true;
};

std::vector<fs::path> json_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with(".");
    if (!hidden && entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The oldest first: their folders are named by time.
std::vector<ResultFiles> results_in(const fs::path& folder) {
  std::vector<ResultFiles> results;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with(".");
    if (hidden || entry.is_symlink() || !entry.is_directory()) continue;
    const fs::path file = entry.path() / "result.json";
    const fs::path rows = entry.path() / kRowsFolder;
    std::error_code ignored;  // whatever stands there is read, or refused as damaged
    if (fs::exists(fs::symlink_status(file, ignored))) {
      results.push_back({entry.path(), {file}});
    } else if (fs::is_directory(rows, ignored)) {
      results.push_back({entry.path(), json_files_in(rows), false});
    }
  }
  std::sort(results.begin(), results.end(),
            [](const auto& a, const auto& b) { return a.folder < b.folder; });
  return results;
}

void check_depth(const std::string& text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) throw std::runtime_error("its values are too deep in one another");
  }
}

/// A whole result, of another version than this ddprun reads.
struct OtherVersion : std::runtime_error {
  explicit OtherVersion(int version)
      : std::runtime_error(fmt::format("schema version {}", version)) {}
};

struct ReadResult {
  std::string text;
  json values;

  const json& rows() const { return values.at("rows"); }
  /// The line of each row, as write_result_json() writes them; empty: it has none.
  std::vector<std::string_view> row_lines() const;
};

std::vector<std::string_view> ReadResult::row_lines() const {
  constexpr std::string_view kBefore = "\n \"rows\": [\n", kIndent = "  ";
  std::vector<std::string_view> lines;
  const std::size_t begin = text.find(kBefore);
  std::string_view left = begin == std::string::npos ? std::string_view() : text;
  if (!left.empty()) left.remove_prefix(begin + kBefore.size());
  while (left.starts_with("  {")) {
    const std::size_t end = left.find('\n');
    std::string_view line = left.substr(0, end);
    line.remove_prefix(kIndent.size());
    if (line.ends_with(',')) line.remove_suffix(1);
    lines.push_back(line);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
  }
  lines.resize(rows().size());
  return lines;
}

/// Throws OtherVersion, or another std::exception if the file is damaged.
ReadResult read_result(const fs::path& path) {
  ReadResult result{read_whole(path), {}};
  check_depth(result.text);
  result.values = json::parse(result.text);
  const int version = result.values.at("schema_version");
  if (version != kResultSchemaVersion) throw OtherVersion(version);
  if (!result.rows().is_array()) throw std::runtime_error("rows is no list");
  return result;
}

/// Of a row that is ok. Throws std::exception if it is not one that this ddprun has measured.
void check_figures(const Row& row) {
  if (row.world_size != static_cast<std::int64_t>(row.ranks.size())) {
    throw std::runtime_error(
        fmt::format("world_size is {}, and it has {} ranks", row.world_size, row.ranks.size()));
  }
  if (const std::string flaw = impossible(row); !flaw.empty()) throw std::runtime_error(flaw);
  Row judged = row;
  judge(judged);
  if (!judged.ok()) {
    throw std::runtime_error(fmt::format("status is ok, and the ranks say {}: {}",
                                         name_of(judged.status), judged.reason));
  }
  if (!row.conditions.is_object() ||
      row.conditions.value(kRanks, json()) != observed_conditions(row)) {
    throw std::runtime_error("its conditions are not those that the ranks observed");
  }
  if (summarize_proof(row).status == CheckStatus::unchecked) {
    throw std::runtime_error("status is ok, and no check was made");
  }
}

/// A row that is done, whose text is `line` or was laid out anew. Throws std::exception if it is
/// not one that this ddprun has written.
Row checked_row(const json& in, std::string_view line) {
  Row row = row_from_json(in);
  if (row.ok()) {
    check_figures(row);
  } else if (row.measured() || row.reason.empty()) {
    throw std::runtime_error("its memory ran out, and it has figures, or no reason");
  }
  // Figures, types and keys at once: writing it again must give what was read.
  std::string text;
  write_row_json(row, [&text](std::string_view part) { text += part; });
  if (text == line) return row;
  const json again = json::parse(text);
  if (again != in) {
    throw std::runtime_error(json::diff(in, again).at(0).at("path").get<std::string>() +
                             " does not agree with the rest");
  }
  return row;
}

/// Reads results, and keeps the newest row of each run.
class Reader {
 public:
  void read(const ResultFiles& stored, const fs::path& file) {
    try {
      const ReadResult result = read_result(file);
      const std::vector<std::string_view> lines = result.row_lines();
      for (std::size_t i = 0; i < lines.size(); ++i) {
        try {
          add(result.rows()[i], lines[i], stored);
        } catch (const std::exception& error) {
          spdlog::error("--resume: row {} of {} is damaged, and runs again: {}", i + 1,
                        file.string(), error.what());
        }
      }
    } catch (const OtherVersion& other) {
      refused_.push_back(fmt::format("{} has {}", file.string(), other.what()));
    } catch (const std::exception& error) {
      spdlog::error("--resume: {} is damaged, and its rows run again: {}", file.string(),
                    error.what());
    }
  }

  std::map<RunKey, std::vector<EarlierRow>> take() {
    if (!refused_.empty()) {
      spdlog::warn(
          "--resume: {}, and this ddprun reads version {}: its rows run again{}", refused_.back(),
          kResultSchemaVersion,
          refused_.size() > 1 ? fmt::format(" (and those of {} more)", refused_.size() - 1) : "");
    }
    return std::move(rows_);
  }

 private:
  void add(const json& in, std::string_view line, const ResultFiles& stored) {
    const auto status = in.at("status").get<RowStatus>();
    if (status != RowStatus::ok && status != RowStatus::out_of_memory) return;
    Row row = checked_row(in, line);
    if (!row.ok() && !met_memory_limit(row)) return;  // the next time there may be more of it
    if (row.taken_from.empty()) row.taken_from = stored.folder.string();
    std::vector<EarlierRow>& known = rows_[{row.fingerprint, row.repetition}];
    std::erase_if(known,
                  [&row](const auto& each) { return each.row.conditions == row.conditions; });
    known.insert(known.begin(), {std::move(row), stored.complete ? stored.folder : fs::path()});
  }

  std::map<RunKey, std::vector<EarlierRow>> rows_;
  std::vector<std::string> refused_;  ///< "FILE has schema version N"
};

/// As it stands in a file, where what is no UTF-8 is replaced, and there is no NaN: the experiment
/// without where it looks for plugins and writes, which the fingerprint leaves out, too.
std::string experiment_of(const Row& row) {
  json config = row.config;
  for (const char* key : {"output", "plugin_path"}) config.erase(key);
  return json_text({{"config", config}, {"work", row.work}, {"emulated", row.emulated}});
}

}  // namespace

WholeResult whole_result(const fs::path& file) {
  std::string why;
  try {
    ReadResult read = read_result(file);
    const std::vector<std::string_view> lines = read.row_lines();
    WholeResult result;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const json& in = read.rows()[i];
      const bool ok = in.at("status").get<RowStatus>() == RowStatus::ok;
      result.rows.push_back(ok ? checked_row(in, lines[i]) : row_from_json(in));
    }
    result.json = std::move(read.values);
    return result;
  } catch (const std::exception& error) {
    why = error.what();
  }
  throw ConfigError(
      {.what = "not a result that this ddprun wrote",
       .where = file.string(),
       .got = why,
       .expected = fmt::format("a whole result.json of schema version {}", kResultSchemaVersion),
       .hint = "measure again with this version"});
}

std::map<RunKey, std::vector<EarlierRow>> earlier_rows(const fs::path& folder) {
  Reader reader;
  if (!fs::is_directory(folder)) return {};
  for (const ResultFiles& stored : results_in(folder)) {
    for (const fs::path& file : stored.files) reader.read(stored, file);
  }
  return reader.take();
}

bool says_the_same(const Row& planned, const EarlierRow& earlier) {
  const std::string wanted_text = experiment_of(planned);
  const std::string found_text = experiment_of(earlier.row);
  if (found_text == wanted_text) return true;
  const json wanted = json::parse(wanted_text);
  const json found = json::parse(found_text);
  if (found == wanted) return true;  // 1 and 1.0
  spdlog::error(
      "--resume: a row of {} is damaged, and runs again: {} is not of the experiment that its "
      "fingerprint names",
      earlier.row.taken_from, json::diff(found, wanted).at(0).at("path").get<std::string>());
  return false;
}

}  // namespace ddprun
