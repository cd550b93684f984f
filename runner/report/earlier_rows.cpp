// Reads result.json again, and believes only what this ddprun could have written.
#include "runner/report/earlier_rows.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/text.h"
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
  std::ranges::sort(files);
  return files;
}

/// The oldest first: their folders are named by time.
std::vector<ResultFiles> results_in(const fs::path& folder) {
  std::vector<ResultFiles> results;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with(".");
    if (hidden || entry.is_symlink() || !entry.is_directory()) continue;
    const fs::path file = entry.path() / kResultFile;
    const fs::path rows = entry.path() / kRowsFolder;
    std::error_code ignored;  // whatever stands there is read, or refused as damaged
    const bool unfinished = fs::is_directory(rows, ignored);  // its other files may be missing
    if (fs::exists(fs::symlink_status(file, ignored))) {
      results.push_back({entry.path(), {file}, !unfinished});
    } else if (unfinished) {
      results.push_back({entry.path(), json_files_in(rows), false});
    }
  }
  std::ranges::sort(results, [](const auto& a, const auto& b) { return a.folder < b.folder; });
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

/// A result.json. Rows as write_result_json() writes them, a line each, are parsed one by one: the
/// values of all of them take many times the memory of their text.
class ReadResult {
 public:
  /// Throws OtherVersion, or another std::exception if the file is damaged.
  explicit ReadResult(const fs::path& path);
  ReadResult(const ReadResult&) = delete;
  ReadResult& operator=(const ReadResult&) = delete;

  /// All values; its "rows" may be empty.
  const json& head() const { return head_; }
  std::size_t rows() const { return lines_.empty() ? head_.at("rows").size() : lines_.size(); }
  json row(std::size_t i) const {
    return lines_.empty() ? head_.at("rows")[i] : parse_json(lines_[i]);
  }
  /// Empty: it is not laid out so.
  std::string_view line(std::size_t i) const {
    return lines_.empty() ? std::string_view() : lines_[i];
  }

 private:
  /// Takes the lines of rows off the text, and returns what is around them.
  std::string take_lines();

  std::string text_;
  std::vector<std::string_view> lines_;
  json head_;
};

std::string ReadResult::take_lines() {
  constexpr std::string_view kBefore = "\n \"rows\": [\n", kIndent = "  ", kBegin = "  {";
  const std::size_t found = text_.find(kBefore);
  if (found == std::string::npos) return text_;
  std::string_view left = std::string_view(text_).substr(found + kBefore.size());
  bool more = true;
  while (more && left.starts_with(kBegin)) {
    const std::string_view whole = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), whole.size() + 1));
    std::string_view line = whole.substr(kIndent.size());
    more = line.ends_with(',');
    if (more) line.remove_suffix(1);
    lines_.push_back(line);
  }
  if (more) {  // the last row has no comma
    lines_.clear();
    return text_;
  }
  return text_.substr(0, found + kBefore.size()) + std::string(left);
}

ReadResult::ReadResult(const fs::path& path) : text_(read_whole(path)) {
  check_depth(text_);
  head_ = parse_json(take_lines());
  const int version = head_.at("schema_version");
  if (version != kResultSchemaVersion) throw OtherVersion(version);
  if (!head_.at("rows").is_array()) throw std::runtime_error("rows is no list");
}

/// Throws json::exception if what stands around the rows is not what readers of a result rely on.
void check_head(const json& head) {
  for (const char* text : {"name", "time", "ddprun_version"}) {
    head.at(text).get_ref<const std::string&>();
  }
  for (const json& word : head.at("command_line")) word.get_ref<const std::string&>();
  head.at("environment").get_ref<const json::object_t&>();
  for (const json& line : head.at("table")) line.at("figures").get_ref<const json::object_t&>();
}

/// Of a row that was measured. Throws std::exception if the ranks' checks say another status.
void check_verdict(const Row& row) {
  Row judged = row;
  judge(judged);
  if (judged.status == row.status) return;
  throw std::runtime_error(fmt::format("status is {}, and the ranks say {}{}{}",
                                       name_of(row.status), name_of(judged.status),
                                       judged.ok() ? "" : ": ", judged.reason));
}

/// Of a row that is ok. Throws std::exception if it is not one that this ddprun has measured.
void check_figures(const Row& row) {
  if (row.world_size != static_cast<std::int64_t>(row.ranks.size())) {
    throw std::runtime_error(fmt::format("world_size is {}, and it has {}", row.world_size,
                                         counted(std::ssize(row.ranks), "rank")));
  }
  if (const std::string flaw = impossible(row); !flaw.empty()) throw std::runtime_error(flaw);
  check_verdict(row);
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
  const json again = parse_json(text);
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
      const ReadResult result(file);
      for (std::size_t i = 0; i < result.rows(); ++i) {
        try {
          add(result.row(i), result.line(i), stored);
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
/// without its name, where it looks for plugins and writes, which the fingerprint leaves out, too.
std::string experiment_of(const Row& row) {
  json config = row.config;
  for (const char* key : {"name", "output", "plugin_path"}) config.erase(key);
  return json_text({{"config", config}, {"work", row.work}, {"emulated", row.emulated}});
}

}  // namespace

WholeResult whole_result(const fs::path& file) {
  std::string why;
  try {
    const ReadResult read(file);
    WholeResult result{.json = read.head(), .rows = {}};
    result.json["rows"] = json::array();
    for (std::size_t i = 0; i < read.rows(); ++i) {
      json in = read.row(i);
      const bool ok = in.at("status").get<RowStatus>() == RowStatus::ok;
      result.rows.push_back(ok ? checked_row(in, read.line(i)) : row_from_json(in));
      if (result.rows.back().measured()) check_verdict(result.rows.back());
      result.json["rows"].push_back(std::move(in));
    }
    if (!result.rows.empty()) check_head(result.json);
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
  const json wanted = parse_json(wanted_text);
  const json found = parse_json(found_text);
  if (found == wanted) return true;  // 1 and 1.0
  spdlog::error(
      "--resume: a row of {} is damaged, and runs again: {} is not of the experiment that its "
      "fingerprint names",
      earlier.row.taken_from, json::diff(found, wanted).at(0).at("path").get<std::string>());
  return false;
}

}  // namespace ddprun
