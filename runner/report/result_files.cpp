// Contents of a result folder.
#include "runner/report/result_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "ddprun/base/error.h"
#include "runner/report/memory_table.h"
#include "runner/report/report_table.h"
#include "runner/report/timeline_file.h"

namespace ddprun {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

std::string quoted_for_shell(const std::string& word) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') out += "'\\'";
    out += c;
  }
  out += '\'';
  return out;
}

Row read_row(const json& in, const fs::path& folder) {
  Row row = row_from_json(in);
  if (row.taken_from.empty()) row.taken_from = folder.string();
  return row;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("it cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The facts of the machine, and what carried the collectives of the rows.
std::vector<std::pair<std::string, std::string>> environment_of(const ResultContext& context,
                                                                const std::vector<Row>& rows) {
  std::set<std::string> backends;
  std::vector<std::pair<std::string, std::string>> device;  // of rank 0, in the last row
  for (const Row& row : rows) {
    if (!row.measured()) continue;
    backends.insert(row.ranks[0].backend);
    if (!row.ranks[0].device.empty()) device = row.ranks[0].device;
  }
  auto environment = context.environment;
  environment.insert(environment.end(), device.begin(), device.end());
  if (!backends.empty()) {
    environment.emplace_back("backend", fmt::format("{}", fmt::join(backends, "; ")));
  }
  return environment;
}

/// Memory by phase, and where the snapshots lie; empty if no row's memory was looked at.
std::string memory_markdown(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  const TextTable table = memory_table(rows);
  if (table.lines.empty()) return {};
  std::string out = "\n## Memory\n\nOf tensors, by phase, in the last warm-up step.\n\n";
  out += table.markdown();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!row.measured() || row.ranks.front().memory_snapshot.empty()) continue;
    if (!row.taken_from.empty()) continue;  // it is there
    out += fmt::format("\nMemory snapshot of {}: {}/{}\n", names[i], row_folder(i + 1),
                       row.ranks.front().memory_snapshot);
  }
  return out;
}

}  // namespace

json result_json(const ResultContext& context, const std::vector<Row>& rows) {
  json environment = json::object();
  for (const auto& [key, value] : environment_of(context, rows)) environment[key] = value;
  json out = {{"schema_version", kResultSchemaVersion},
              {"ddprun_version", DDPRUN_VERSION},
              {"name", context.name},
              {"time", context.time},
              {"command_line", context.command_line},
              {"environment", std::move(environment)},
              {"rows", json::array()}};
  for (const Row& row : rows) out["rows"].push_back(to_json(row));
  return out;
}

std::string steps_csv(const std::vector<Row>& rows) {
  std::string out =
      "row,label,emulated,rank,step,warmup,step_ms,forward_ms,backward_ms,exposed_ms,optimizer_ms,"
      "communication_ms,overlapped_ms,launch_delay_ms,loss,gradient_norm,skipped,collectives,"
      "bytes\n";
  const RowNames names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const RankResult& rank : rows[i].ranks) {
      for (const StepSample& s : rank.samples) {
        out += fmt::format(
            "{},{},{},{},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{},{},{},{},"
            "{}"
            "\n",
            i + 1, csv_field(names.names[i]), rows[i].emulated ? 1 : 0, rank.rank, s.step,
            s.warmup ? 1 : 0, s.step_ms, s.forward_ms, s.backward_ms, s.exposed_ms, s.optimizer_ms,
            s.communication_ms, s.overlapped_ms, s.launch_delay_ms, s.loss,
            s.gradient_norm ? fmt::format("{}", *s.gradient_norm) : "", s.skipped ? 1 : 0,
            s.collectives, s.bytes);
      }
    }
  }
  return out;
}

std::string summary_markdown(const ResultContext& context, const std::vector<Row>& rows) {
  std::string out = "# " + context.name + "\n\n" + context.time + "\n\n```sh\n";
  for (std::size_t i = 0; i < context.command_line.size(); ++i) {
    if (i > 0) out += ' ';
    out += quoted_for_shell(context.command_line[i]);
  }
  out += "\n```\n\n" + report_table(rows).markdown() + "\n";
  for (const std::string& line : proof_lines(rows)) out += "- " + line + "\n";
  const RowNames names = row_names(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].reason.empty()) {
      out += "\n" + names.names[i] + " (" + rows[i].status + "):\n\n```\n" + rows[i].reason +
             "\n```\n";
    }
    if (!rows[i].taken_from.empty()) {
      out += "\n" + names.names[i] + ": measured earlier, in " + rows[i].taken_from + "\n";
    }
  }
  out += memory_markdown(rows, names.names);
  out +=
      "\nTimes in milliseconds: median over the measured steps (± standard deviation); what each "
      "column means stands in docs/measurement.md.\n\n## Environment\n\n";
  for (const auto& [key, value] : environment_of(context, rows))
    out += "- " + key + ": " + value + "\n";
  return out;
}

std::string row_folder(std::size_t number) { return fmt::format("profile/{:02}", number); }

fs::path write_result(ResultFolder& folder, const ResultContext& context,
                      const std::vector<Row>& rows) {
  folder.write("experiment.yaml", context.yaml);
  for (std::size_t i = 0; i < context.resolved_yaml.size(); ++i) {
    folder.write(fmt::format("resolved/{:02}.yaml", i + 1), context.resolved_yaml[i]);
  }
  const auto replace = json::error_handler_t::replace;  // a path may be no UTF-8
  folder.write("result.json", result_json(context, rows).dump(1, ' ', false, replace) + "\n");
  folder.write("steps.csv", steps_csv(rows));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].measured()) continue;
    folder.write(row_folder(i + 1) + "/timeline.json", timeline_json(rows[i]));
  }
  folder.write("summary.md", summary_markdown(context, rows));
  for (const Row& row : rows) {
    if (!row.measured() || row.ranks[0].topology.empty()) continue;
    folder.write("nccl_topology.xml", row.ranks[0].topology);  // of all rows: they ran in one place
    break;
  }
  return folder.commit();
}

std::map<std::string, EarlierRow> earlier_rows(const fs::path& folder) {
  std::map<std::string, EarlierRow> rows;
  if (!fs::is_directory(folder)) return rows;
  std::vector<fs::path> results;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with(".");
    if (!hidden && !entry.is_symlink() && fs::exists(entry.path() / "result.json")) {
      results.push_back(entry.path());
    }
  }
  std::sort(results.begin(), results.end());  // by time
  for (const fs::path& result : results) {
    try {
      const json in = json::parse(read_text(result / "result.json"));
      if (in.at("schema_version") != kResultSchemaVersion) {
        spdlog::warn("{}: written by another version of ddprun, not resumed from", result.string());
        continue;
      }
      for (const json& row : in.at("rows")) {
        if (row.at("status") == row_status::kOk)
          rows[row.at("fingerprint")] = {read_row(row, result), result};
      }
    } catch (const std::exception& error) {
      throw ConfigError({.what = "an earlier result cannot be read",
                         .where = (result / "result.json").string(),
                         .got = error.what(),
                         .expected = "a result.json as ddprun wrote it",
                         .hint = "move it away, or run without --resume"});
    }
  }
  return rows;
}

}  // namespace ddprun
