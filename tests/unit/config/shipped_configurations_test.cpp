// Every file under configs/ loads, and begins with its schema, its question and its cost.
#include <filesystem>

#include "ddprun/config/experiment.h"
#include "ddprun/experiments/kinds.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

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
    const std::vector<std::string> lines = test::lines_of(test::read_file(entry.path()));
    const fs::path file =
        (configs / "ddprun.schema.json").lexically_relative(entry.path().parent_path());
    EXPECT_EQ(lines.at(0), "# yaml-language-server: $schema=" + file.string());
    EXPECT_THAT(lines.at(1), AllOf(StartsWith("# "), EndsWith("?")));
    EXPECT_THAT(lines.at(2), StartsWith("# Cost: "));
  }
  EXPECT_GE(files, 1);
}

}  // namespace
}  // namespace ddprun
