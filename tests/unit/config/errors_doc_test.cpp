// docs/errors.md cannot rot: its tables have each error of the sources, and no other; and an error
// that is thrown where it is written says everything that an error must.
//
// An error stands in the sources as `.what = ` and an expression of literals: texts joined by `+`,
// or fmt::format with a literal. What lies between the literals may be any text.
#include <fnmatch.h>

#include <filesystem>
#include <sstream>

#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using test::read_file;

const fs::path kSources = DDPRUN_SOURCE_DIR;

std::vector<fs::path> source_files() {
  std::vector<fs::path> files;
  for (const char* folder : {"core", "runner", "plugins"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kSources / folder)) {
      const std::string extension = entry.path().extension();
      if (extension == ".cpp" || extension == ".h") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The end of the string literal that begins at `at`.
std::size_t end_of_literal(const std::string& text, std::size_t at) {
  for (++at; text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

/// The operands of the expression at `at`, which ends at a comma, semicolon or bracket of its own.
std::vector<std::string> operands(const std::string& text, std::size_t at) {
  std::vector<std::string> found(1);
  int depth = 0;
  while (true) {
    const char c = text[at];
    const bool closes = c == ')' || c == '}' || c == ']';
    if (depth == 0 && (closes || c == ',' || c == ';')) return found;
    if (c == '"') {
      const std::size_t end = end_of_literal(text, at);
      found.back() += text.substr(at, end - at);
      at = end;
      continue;
    }
    depth += (c == '(' || c == '{' || c == '[') - closes;
    if (c == '+' && depth == 0) {
      found.emplace_back();
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      found.back() += c;
    }
    ++at;
  }
}

/// The texts of adjacent literals at the front of `operand`, which are one text.
std::string literal_of(const std::string& operand) {
  std::string text;
  for (std::size_t at = 0; at < operand.size() && operand[at] == '"';) {
    const std::size_t end = end_of_literal(operand, at);
    for (std::size_t i = at + 1; i + 1 < end; ++i) {
      if (operand[i] == '\\') ++i;
      text += operand[i];
    }
    at = end;
  }
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string("*?[\\").find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

/// The pattern of what an operand can say, as of a file's name.
std::string pattern_of(const std::string& operand) {
  const std::string format = "fmt::format(";
  if (operand.starts_with('"')) return escaped(literal_of(operand));
  if (!operand.starts_with(format)) return "?*";
  std::string pattern;
  std::istringstream pieces(literal_of(operand.substr(format.size())));
  for (std::string piece; std::getline(pieces, piece, '{');) {
    if (const auto close = piece.find('}'); close != std::string::npos) {
      pattern += "?*";
      piece.erase(0, close + 1);
    }
    pattern += escaped(piece);
  }
  return pattern;
}

struct SourceError {
  std::string where;    ///< file:line
  std::string pattern;  ///< of its message
};

std::string place(const fs::path& file, const std::string& text, std::size_t at) {
  return fs::relative(file, kSources).string() + ":" +
         std::to_string(
             std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1);
}

/// All errors whose words stand in the sources; not those that pass on the words of another.
std::vector<SourceError> source_errors() {
  const std::string marker = ".what =";
  std::vector<SourceError> found;
  for (const auto& file : source_files()) {
    const std::string text = read_file(file);
    for (auto at = text.find(marker); at != std::string::npos; at = text.find(marker, at + 1)) {
      std::string pattern;
      for (const auto& operand : operands(text, at + marker.size())) pattern += pattern_of(operand);
      if (pattern != "?*") found.push_back({place(file, text, at), pattern});
    }
  }
  return found;
}

/// The first cells of the tables between <!-- errors --> and <!-- end -->.
std::vector<std::string> documented_errors() {
  std::vector<std::string> found;
  bool errors = false;
  for (const std::string& line : test::lines_of(read_file(kSources / "docs/errors.md"))) {
    if (line.starts_with("<!--")) errors = line == "<!-- errors -->";
    const bool row = line.starts_with("| ") && !line.starts_with("| message |");
    if (errors && row) found.push_back(line.substr(2, line.find(" | ") - 2));
  }
  return found;
}

/// A rank puts "rank R failed: " before the words of its error.
bool says(const std::string& message, const SourceError& error) {
  const std::string rank = "rank R failed: ";
  const auto is = [&](const std::string& words) {
    return ::fnmatch(error.pattern.c_str(), words.c_str(), 0) == 0;
  };
  return is(message) || (message.starts_with(rank) && is(message.substr(rank.size())));
}

TEST(ErrorsDoc, HasEveryErrorOfTheSources) {
  const auto documented = documented_errors();
  const auto errors = source_errors();
  ASSERT_GT(errors.size(), 100U);
  for (const auto& error : errors) {
    EXPECT_TRUE(std::any_of(documented.begin(), documented.end(),
                            [&](const auto& message) { return says(message, error); }))
        << error.where << ": docs/errors.md has no row for: " << error.pattern;
  }
}

TEST(ErrorsDoc, HasNoErrorThatTheSourcesDoNotHave) {
  const auto errors = source_errors();
  for (const auto& message : documented_errors()) {
    EXPECT_TRUE(std::any_of(errors.begin(), errors.end(),
                            [&](const auto& error) { return says(message, error); }))
        << "docs/errors.md: no source says: " << message;
  }
}

TEST(ErrorsDoc, AnErrorThatIsThrownWhereItIsWrittenHasAllItsParts) {
  for (const auto& file : source_files()) {
    const std::string text = read_file(file);
    for (auto at = text.find("Error("); at != std::string::npos; at = text.find("Error(", at + 1)) {
      const std::size_t begin = text.find_first_not_of(" \n", at + 6) + 1;
      if (text[begin - 1] != '{' || text[text.find_first_not_of(" \n", begin)] == '}') continue;
      const std::string where = place(file, text, begin);
      EXPECT_EQ(text.compare(text.find_first_not_of(" \n", begin), 6, ".what "), 0) << where;
      std::size_t end = begin;
      for (int depth = 1; depth > 0; ++end) {
        if (text[end] == '"') end = end_of_literal(text, end) - 1;
        depth += (text[end] == '{') - (text[end] == '}');
      }
      const std::string fields = text.substr(begin, end - begin);
      for (const std::string field : {".where =", ".got =", ".expected =", ".hint ="}) {
        EXPECT_THAT(fields, HasSubstr(field)) << where;
        EXPECT_THAT(fields, Not(ContainsRegex(field + "[ \n]*(\"\"|\\{\\})"))) << where;
      }
    }
  }
}

}  // namespace
}  // namespace ddprun
