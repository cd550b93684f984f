// docs/configuration.md cannot rot: its tables are those of describe_sections(), and its example
// loads.
//
// After a change of options, rewrite the tables: DDPRUN_UPDATE_DOCS=1
// build/release/bin/unit_config --gtest_filter=ConfigurationDoc.*
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ddprun/config/experiment.h"
#include "ddprun/experiments/kinds.h"
#include "ddprun/measure/environment.h"
#include "support/page_tables.h"

namespace ddprun {
namespace {

const std::filesystem::path kFile =
    std::filesystem::path(DDPRUN_SOURCE_DIR) / "docs/configuration.md";

std::string table(const std::vector<OptionInfo>& options) {
  std::ostringstream out;
  out << "| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
  for (const auto& option : options) {
    out << "| `" << option.key << "` | " << option.type << " | `" << option.default_value << "` | "
        << option.allowed << " | " << option.help << " |\n";
  }
  return out.str();
}

TEST(ConfigurationDoc, TablesAreThoseOfTheCode) {
  for (const auto& [name, options] : describe_sections(experiment_kinds())) {
    test::expect_table(kFile, "<!-- options: " + name + " -->\n", table(options));
  }
}

TEST(ConfigurationDoc, EnvironmentVariablesAreThoseOfTheCode) {
  std::ostringstream rows;
  rows << "| variable | what it changes | a rank's own |\n|---|---|---|\n";
  for (const EnvironmentVariable& variable : kEnvironmentVariables) {
    rows << "| `" << variable.name << "` | " << variable.changes << " | "
         << (variable.own_of_a_rank ? "yes" : "") << " |\n";
  }
  test::expect_table(kFile, "<!-- variables -->\n", rows.str());
}

TEST(ConfigurationDoc, TheExampleLoads) {
  const std::string text = test::read_file(kFile);
  const std::size_t first = text.find("```yaml\n", text.find("## The form of a file")) + 8;
  const auto file = std::filesystem::path(testing::TempDir()) / "configuration_doc_test.yaml";
  std::ofstream(file) << text.substr(first, text.find("```", first) - first);
  EXPECT_EQ(load_experiments(file, {}, experiment_kinds()).experiments.size(), 1u);
}

}  // namespace
}  // namespace ddprun
