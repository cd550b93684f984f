// Every file under configs/ loads, and begins with its question and its cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ddprun/config/experiment.h"
#include "ddprun/experiments/kinds.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

TEST(ShippedConfigurations, AllLoadAndSayTheirQuestionAndCost) {
  int files = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(DDPRUN_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(load_experiments(entry.path(), {}, experiment_kinds()));
    std::ifstream stream(entry.path());
    std::string question, cost;
    std::getline(stream, question);
    std::getline(stream, cost);
    EXPECT_THAT(question, testing::AllOf(testing::StartsWith("# "), testing::EndsWith("?")));
    EXPECT_THAT(cost, testing::StartsWith("# Cost: "));
  }
  EXPECT_GE(files, 1);
}

}  // namespace
}  // namespace ddprun
