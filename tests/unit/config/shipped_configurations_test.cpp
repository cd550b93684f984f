// Every file under configs/ loads, and begins with its schema, its question and its cost.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ddprun/config/experiment.h"
#include "ddprun/experiments/kinds.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

TEST(ShippedConfigurations, AllLoadAndSayTheirSchemaQuestionAndCost) {
  int files = 0;
  const fs::path configs = fs::path(DDPRUN_SOURCE_DIR) / "configs";
  for (const auto& entry : fs::recursive_directory_iterator(configs)) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(load_experiments(entry.path(), {}, experiment_kinds()));
    std::ifstream stream(entry.path());
    std::string schema, question, cost;
    std::getline(stream, schema);
    std::getline(stream, question);
    std::getline(stream, cost);
    const fs::path file =
        (configs / "ddprun.schema.json").lexically_relative(entry.path().parent_path());
    EXPECT_EQ(schema, "# yaml-language-server: $schema=" + file.string());
    EXPECT_THAT(question, AllOf(StartsWith("# "), EndsWith("?")));
    EXPECT_THAT(cost, StartsWith("# Cost: "));
  }
  EXPECT_GE(files, 1);
}

}  // namespace
}  // namespace ddprun
