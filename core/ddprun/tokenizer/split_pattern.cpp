// PCRE2 in its 8-bit form, over UTF-8.
#include "ddprun/tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddprun/base/error.h"

namespace ddprun {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char* const kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

/// PCRE2's \s lacks U+0085, which Unicode's White_Space has.
std::string with_all_white_space(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? R"(\s\x{85})" : R"([\s\x{85}])";
      } else if (next == 'S' && !in_class) {
        out += R"([^\s\x{85}])";
      } else {
        out += {c, next};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

std::string pattern_named(const std::string& name) {
  for (const auto& [known, pattern] :
       {std::pair{"gpt2", kGpt2Pattern}, std::pair{"cl100k", kCl100kPattern},
        std::pair{"o200k", kO200kPattern}}) {
    if (name == known) return pattern;
  }
  return name;
}

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  bool ends_with_lines = false;
  ~Compiled() { pcre2_code_free(code); }
};

SplitPattern::SplitPattern(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  compiled_->ends_with_lines =
      pattern == kGpt2Pattern || pattern == kCl100kPattern || pattern == kO200kPattern;
  const std::string text = with_all_white_space(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr);
  if (compiled_->code != nullptr) {
    pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);
    return;
  }
  std::array<PCRE2_UCHAR, 256> words{};
  pcre2_get_error_message(error, words.data(), words.size());
  throw ConfigError({.what = "the pattern that splits text is no regular expression",
                     .where = pattern,
                     .got = reinterpret_cast<const char*>(words.data()),
                     .expected = "gpt2, cl100k, o200k, or a regular expression",
                     .hint = "a tokenizer.json has its own"});
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;

void SplitPattern::split(std::string_view text,
                         const std::function<void(std::string_view piece)>& visit) const {
  pcre2_match_data* const match = pcre2_match_data_create(1, nullptr);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> owner(
      match, &pcre2_match_data_free);
  std::size_t at = 0;
  while (at < text.size()) {
    const int found = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), at, 0, match, nullptr);
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(match);
    if (found < 0 || ends[1] <= at) break;
    if (ends[0] > at) visit(text.substr(at, ends[0] - at));
    visit(text.substr(ends[0], ends[1] - ends[0]));
    at = ends[1];
  }
  if (at < text.size()) visit(text.substr(at));
}

std::size_t SplitPattern::cut(std::string_view text, std::size_t limit) const {
  if (!compiled_->ends_with_lines || text.empty()) return 0;
  const auto visible = [](char c) { return c > ' ' && c < 0x7F; };
  for (std::size_t at = std::min(limit, text.size() - 1); at > 1; --at) {
    const char next = text[at];
    const bool word = (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z') ||
                      (next >= 'A' && next <= 'Z');
    if (word && text[at - 1] == '\n' && visible(text[at - 2])) return at;
  }
  return 0;
}

}  // namespace ddprun
