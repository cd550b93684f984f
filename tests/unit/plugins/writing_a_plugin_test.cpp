// The code in docs/writing_a_plugin.md and docs/using_the_library.md is the code that the tests
// compile and run.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "support/temporary_folder.h"

namespace {

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

std::multiset<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::multiset<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

TEST(UsingTheLibrary, ListsTheHeadersThatAreInstalledForUsers) {
  const auto listed =
      matches(text_of("docs/using_the_library.md"), std::regex("\n\\| `(ddprun/[^`]+\\.h)` \\|"));
  const auto installed = matches(text_of("core/public_headers.txt"), std::regex("\n(ddprun/.+)"));
  EXPECT_GT(listed.size(), 20U);
  EXPECT_EQ(listed, installed);
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
std::multiset<std::string> virtuals_of(const std::string& kind, const std::string& headers) {
  std::smatch begin;
  EXPECT_TRUE(std::regex_search(headers, begin, std::regex("\nclass " + kind + "\\b[^;{]*\\{")))
      << kind;
  const std::string behind = begin.suffix();
  return matches(behind.substr(0, behind.find("\n};")),
                 std::regex("\n *virtual [^;{(]*[ &*](\\w+)\\("));
}

/// The tables of what the core calls, and when: class -> functions.
std::map<std::string, std::multiset<std::string>> tables_of_calls(const std::string& markdown) {
  std::map<std::string, std::multiset<std::string>> tables;
  const std::regex head("\\| `(\\w+)` \\| when \\|.*"), row("\\| `(\\w+)\\(.*");
  std::string kind;
  for (const std::string& line : lines_of(markdown)) {
    std::smatch found;
    if (std::regex_match(line, found, head)) {
      kind = found[1];
    } else if (!line.starts_with('|')) {
      kind.clear();
    } else if (!kind.empty() && std::regex_match(line, found, row)) {
      tables[kind].insert(found[1]);
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
    EXPECT_EQ(functions, virtuals_of(kind, headers)) << kind;
  }
}

}  // namespace
