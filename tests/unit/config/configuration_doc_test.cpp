// docs/configuration.md cannot rot: its tables are those of describe_sections(), its examples load.
//
// After a change of options, rewrite the tables: DDPRUN_UPDATE_DOCS=1
// build/release/bin/unit_config --gtest_filter=ConfigurationDoc.*
#include <gmock/gmock.h>
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

TEST(ConfigurationDoc, TheSweepHasTheLabelsThatItGives) {
  const std::string text = test::read_file(kFile);
  const std::size_t first = text.find("```yaml\n", text.find("## Sweeps")) + 8;
  const std::size_t end = text.find("```\n", first);
  const auto file = std::filesystem::path(testing::TempDir()) / "configuration_doc_sweep.yaml";
  std::ofstream(file) << "precision: fp32\nattention: sdpa\ntrain: {global_batch: 8}\n"
                      << text.substr(first, end - first);
  std::string words;
  for (const auto& each : load_experiments(file, {}, experiment_kinds()).experiments) {
    words += (words.empty() ? "`" : "; `") + each.label + "`";
  }
  std::string prose = text.substr(end, text.find("\n\n", end + 5) - end);
  std::ranges::replace(prose, '\n', ' ');
  EXPECT_THAT(prose, testing::HasSubstr("gives, with these labels, " + words + "."));
}

}  // namespace
}  // namespace ddprun
