// The code in docs/writing_a_plugin.md is the code that the tests compile and run.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(std::string(DDPRUN_SOURCE_DIR "/") + file);
  EXPECT_TRUE(in.good()) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The fenced blocks that name a file after their language, as in "```cpp chunked.cpp".
std::map<std::string, std::string> named_blocks(const std::string& markdown) {
  std::map<std::string, std::string> blocks;
  std::istringstream in(markdown);
  std::string line, name;
  bool inside = false;
  while (std::getline(in, line)) {
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
    EXPECT_EQ(code, text_of("tests/integration/out_of_tree/chunked/" + name)) << name;
  }
}

}  // namespace
