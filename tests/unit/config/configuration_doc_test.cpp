// docs/configuration.md cannot rot: its tables are those of describe_sections(), and its example
// has every key and loads.
//
// After a change of options, rewrite the tables: DDPRUN_UPDATE_DOCS=1
// build/release/bin/configuration_doc_test
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ddprun/config/experiment.h"
#include "ddprun/config/plugin_library.h"
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

/// Whether a key of the top level is of plugins that the kind does not have.
bool of_other_plugins(const OptionInfo& option, const std::vector<PluginKind>& own) {
  if (option.key == "plugin_path") return own.empty();
  return option.type == "plugin" &&
         std::none_of(own.begin(), own.end(),
                      [&option](PluginKind kind) { return option.key == to_string(kind); });
}

/// The example of a kind.
std::string example_of(const std::string& kind) {
  const std::string text = test::read_file(kFile);
  const std::string begin = "<!-- example: " + kind + " -->\n```yaml\n";
  const std::size_t at = text.find(begin);
  if (at == std::string::npos) return "(the marker is missing: " + begin + ")";
  const std::size_t first = at + begin.size();
  return text.substr(first, text.find("```", first) - first);
}

void expect_every_key(const ConfigNode& document, const RunnableKind& kind) {
  const std::vector<KindSection>& own = kind.file().sections;
  for (const auto& [name, options] : describe_sections(experiment_kinds())) {
    const bool top = name == "top level";
    const auto known = std::ranges::find(own, name, &KindSection::key);
    if (!top && name != "report" && known == own.end()) continue;
    const ConfigNode* section = top ? &document : document.find(name);
    ASSERT_NE(section, nullptr) << name;
    for (const auto& option : options) {
      if (top && of_other_plugins(option, kind.file().plugins)) continue;
      // The examples say so.
      const bool of_training = name == "world" || (name == "output" && option.key != "dir");
      if (of_training && kind.name() != "training") continue;
      const ConfigNode* node = section;
      std::istringstream keys(option.key);
      for (std::string key; node != nullptr && std::getline(keys, key, '.');)
        node = node->find(key);
      EXPECT_NE(node, nullptr) << name << ": " << option.key;
    }
  }
}

TEST(ConfigurationDoc, TheExamplesHaveEveryKeyAndLoad) {
  for (const RunnableKind* kind : experiment_kinds()) {
    SCOPED_TRACE(kind->name());
    const std::string example = example_of(kind->name());
    expect_every_key(parse_yaml(example, "example"), *kind);
    const auto file = std::filesystem::path(testing::TempDir()) / "configuration_doc_test.yaml";
    std::ofstream(file) << example;
    EXPECT_GE(load_experiments(file, {}, experiment_kinds()).experiments.size(), 4u);
  }
}

}  // namespace
}  // namespace ddprun
