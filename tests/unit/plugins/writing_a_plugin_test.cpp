// The code in docs/writing_a_plugin.md and docs/using_the_library.md is the code that the tests
// compile and run.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/matchers.h"
#include "support/matches.h"
#include "support/temporary_folder.h"

namespace {

using ddprun::test::groups_of;
using ddprun::test::lines_of;

std::string text_of(const std::string& file) {
  return ddprun::test::read_file(std::string(DDPRUN_SOURCE_DIR "/") + file);
}

/// The fenced blocks that name a file after their language, as in "```cpp chunked.cpp".
std::map<std::string, std::string> named_blocks(const std::string& markdown) {
  std::map<std::string, std::string> blocks;
  std::string name;
  bool inside = false;
  for (const std::string& line : lines_of(markdown)) {
    if (line.starts_with("```")) {
      inside = !inside;
      const auto space = line.find(' ');
      name = inside && space != std::string::npos ? line.substr(space + 1) : "";
    } else if (inside && !name.empty()) {
      blocks[name] += line + '\n';
    }
  }
  return blocks;
}

TEST(WritingAPlugin, QuotesTheFilesThatAreTested) {
  const auto blocks = named_blocks(text_of("docs/writing_a_plugin.md"));
  ASSERT_EQ(blocks.size(), 3u);
  for (const auto& [name, code] : blocks) {
    EXPECT_EQ(code, text_of("docs/examples/plugins/strategy/" + name)) << name;
  }
}

TEST(UsingTheLibrary, QuotesTheFilesThatAreTested) {
  const auto blocks = named_blocks(text_of("docs/using_the_library.md"));
  ASSERT_EQ(blocks.size(), 3u);
  for (const auto& [name, code] : blocks) {
    EXPECT_EQ(code, text_of("docs/examples/own_program/" + name)) << name;
  }
}

TEST(UsingTheLibrary, ListsTheHeadersThatAreInstalledForUsers) {
  const auto listed =
      groups_of(text_of("docs/using_the_library.md"), "\n\\| `(ddprun/[^`]+\\.h)` \\|");
  EXPECT_GT(listed.size(), 20U);
  EXPECT_THAT(listed, testing::UnorderedElementsAreArray(
                          groups_of(text_of("core/public_headers.txt"), "\n(ddprun/.+)")));
}

/// All headers of the SDK, one behind the other.
std::string plugin_headers() {
  std::string text;
  for (const auto& entry :
       std::filesystem::directory_iterator(DDPRUN_SOURCE_DIR "/core/ddprun/plugin")) {
    if (entry.path().extension() != ".h") continue;
    text += text_of(std::filesystem::relative(entry.path(), DDPRUN_SOURCE_DIR));
  }
  return text;
}

/// The functions that an author may override; destructors aside.
std::vector<std::string> virtuals_of(const std::string& kind, const std::string& headers) {
  const auto begin = ddprun::test::matches_of(headers, "\nclass " + kind + "\\b[^;{]*\\{");
  EXPECT_EQ(begin.size(), 1u) << kind;
  const std::string behind = headers.substr(begin.at(0).end);
  return groups_of(behind.substr(0, behind.find("\n};")), "\n *virtual [^;{(]*[ &*](\\w+)\\(");
}

/// The tables of what the core calls, and when: class -> functions.
std::map<std::string, std::vector<std::string>> tables_of_calls(const std::string& markdown) {
  std::map<std::string, std::vector<std::string>> tables;
  std::string kind;
  for (const std::string& line : lines_of(markdown)) {
    const auto head = groups_of(line, "^\\| `(\\w+)` \\| when \\|");
    const auto row = groups_of(line, "^\\| `(\\w+)\\(");
    if (!head.empty()) {
      kind = head[0];
    } else if (!line.starts_with('|')) {
      kind.clear();
    } else if (!kind.empty() && !row.empty()) {
      tables[kind].push_back(row[0]);
    }
  }
  return tables;
}

TEST(WritingAPlugin, ListsEveryFunctionThatTheCoreCalls) {
  const std::string headers = plugin_headers();
  const auto tables = tables_of_calls(text_of("docs/writing_a_plugin.md"));
  for (const char* kind : {"Plugin", "Strategy", "Precision", "Attention"}) {
    EXPECT_TRUE(tables.contains(kind)) << kind;
  }
  for (const auto& [kind, functions] : tables) {
    EXPECT_THAT(functions, testing::UnorderedElementsAreArray(virtuals_of(kind, headers))) << kind;
  }
}

}  // namespace
