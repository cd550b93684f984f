// Runs that save, and what they left.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "support/ddprun_command.h"

namespace ddprun::test {

namespace fs = std::filesystem;

/// The row of the latest run of e.yaml.
inline json last_row(const TemporaryFolder& folder) {
  return json::parse(read_file(folder.path() / "results/e/latest/result.json"))["rows"][0];
}

inline std::set<std::string> hashes_of(const json& row) {
  std::set<std::string> out;
  for (const json& rank : row["ranks"]) out.insert(rank["parameter_hash"]);
  return out;
}

/// Losses of the global batch by step.
inline std::map<std::int64_t, double> losses_of(const json& row) {
  std::map<std::int64_t, double> out;
  for (const json& rank : row["ranks"]) {
    const json& samples = rank["samples"];
    for (std::size_t i = 0; i < samples["step"].size(); ++i) {
      out[samples["step"][i]] +=
          samples["loss"][i].get<double>() / static_cast<double>(row["ranks"].size());
    }
  }
  return out;
}

inline std::string detail_of(const json& row, const std::string& check) {
  return element_of(row["ranks"][0]["checks"], "name", check).value("detail", "absent");
}

inline void flip_byte(const fs::path& file, std::int64_t from_end) {
  std::fstream in(file, std::ios::binary | std::ios::in | std::ios::out);
  in.seekg(-from_end, std::ios::end);
  const char byte = static_cast<char>(in.get() ^ 1);
  in.seekp(-from_end, std::ios::end);
  in.put(byte);
}

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() {
    folder_.write("text.txt", [] {
      std::string text;
      for (int i = 0; i < 3000; ++i) text += "word" + std::to_string(i * i) + " ";
      return text;
    }());
    folder_.write("e.yaml", tiny_experiment("", 7));
  }

  /// Of 8 steps, on what changes from step to step. It must end with that status.
  CommandResult run(const Words& more, int status = 0, const Words& launcher = {}) {
    return must_end(status, folder_, words_of(more), launcher);
  }
  static Words words_of(const Words& more) {
    Words words = with_sets(
        {"e.yaml"},
        {"data={source: text, path: text.txt}", "train.accumulate=2",
         "optimizer={lr: 0.01, clip_norm: 0.5, schedule: {name: cosine, warmup_steps: 3}}"});
    for (const std::string& each : more) {
      if (!each.starts_with("-")) words.emplace_back("--set");
      words.push_back(each);
    }
    return words;
  }
  CommandResult checkpoint(Words words, int status = 0) {
    words.insert(words.begin(), "checkpoint");
    return must_end(status, folder_, words);
  }
  fs::path saved(int step) const {
    return folder_.path() / ("saved/step-0000000" + std::to_string(step));
  }

  const std::string save_ = "train.checkpoint={every: 2, keep: 0, path: saved}";
  const std::string from_4_ = "train.resume_from=saved/step-00000004";
  TemporaryFolder folder_;
};

}  // namespace ddprun::test
