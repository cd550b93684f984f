// Experiment files that a test writes and loads, and the text of their errors.
#pragma once

#include <boost/algorithm/string/replace.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/experiments/kinds.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace ddprun {

// The least that an experiment must say; tests add lines.
inline const std::string kLeast =
    "strategy: s\n"
    "precision: p\n"
    "attention: a\n"
    "train: {global_batch: 8}\n";

class ExperimentTest : public testing::Test {
 protected:
  ExperimentFile load(const std::string& text, const std::vector<std::string>& overrides = {},
                      int world_size = 0) {
    std::ofstream(file_) << text;
    return load_experiments(file_, overrides, experiment_kinds(), world_size);
  }

  Experiment load_one(const std::string& text, const std::vector<std::string>& overrides = {},
                      int world_size = 0) {
    return load(text, overrides, world_size).experiments.at(0);
  }

  // The message of the ConfigError, the file's path shortened to its name; "no error".
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {},
                    int world_size = 0) {
    return boost::replace_all_copy(
        test::error_of<ConfigError>([&] { load(text, overrides, world_size); }), file_.string(),
        "run.yaml");
  }

  const test::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  std::filesystem::path file_ = folder_ / "run.yaml";
};

}  // namespace ddprun
