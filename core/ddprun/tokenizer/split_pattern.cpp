// PCRE2 in its 8-bit form, over UTF-8.
#include "ddprun/tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
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

/// Unicode's White_Space within brackets, and all else. PCRE2's \s lacks U+0085 of it, and has
/// U+180E. Each ends with a range: a hyphen behind it stands for itself.
constexpr std::string_view kWhiteSpace =
    R"(\x{20}\x{85}\x{a0}\x{1680}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{2000}-\x{200a}\x{9}-\x{d})";
constexpr std::string_view kNoWhiteSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

/// To find one piece. PCRE2's own limit, 10 million, is too small for long pieces.
constexpr std::uint32_t kMostSteps = 1'000'000'000;

[[noreturn]] void refuse_expression(const std::string& pattern, const std::string& got) {
  throw ConfigError({.what = "the pattern that splits text is no regular expression",
                     .where = pattern,
                     .got = got,
                     .expected = "gpt2, cl100k, o200k, or a regular expression of PCRE2",
                     .hint = "a tokenizer.json has its own"});
}

/// How long the POSIX class is that the text begins with, "[:alpha:]" or "[:^alpha:]"; 0: none.
std::size_t posix_class(std::string_view text) {
  if (!text.starts_with("[:")) return 0;
  const std::size_t name = text.starts_with("[:^") ? 3 : 2;
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz", name);
  return end != text.npos && text.substr(end).starts_with(":]") ? end + 2 : 0;
}

/// The pattern with white space as above. Refuses what other libraries take for an operation on
/// classes, and PCRE2 for characters.
std::string with_own_white_space(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  const auto follows = [&](std::size_t at, std::string_view text) {
    return std::string_view(pattern).substr(at).starts_with(text);
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    std::size_t taken = 1;  // of what is copied as it stands
    if (follows(i, "\\s") || follows(i, "\\S")) {
      const std::string_view set = pattern[++i] == 's' ? kWhiteSpace : kNoWhiteSpace;
      out += in_class ? std::string(set) : fmt::format("[{}]", set);
      continue;
    }
    if (pattern[i] == '\\') {
      taken = 2;
    } else if (!in_class && pattern[i] == '[') {
      in_class = true;
      taken += follows(i + 1, "^") ? 1 : 0;
      taken += follows(i + taken, "]") ? 1 : 0;
    } else if (const std::size_t size = posix_class(std::string_view(pattern).substr(i));
               in_class && size > 0) {
      taken = size;
    } else if (in_class && (pattern[i] == '[' || follows(i, "&&"))) {
      refuse_expression(pattern,
                        "'[' or '&&' within a class: PCRE2 has no such operation, and the "
                        "characters are written '\\[' and '\\&&'");
    } else if (pattern[i] == ']') {
      in_class = false;
    }
    out += pattern.substr(i, taken);
    i += taken - 1;
  }
  return out;
}

std::string words_of(int error) {
  std::array<PCRE2_UCHAR, 256> words{};
  pcre2_get_error_message(error, words.data(), words.size());
  return reinterpret_cast<const char*>(words.data());
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
  std::string pattern;
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = pcre2_match_context_create(nullptr);
  bool ends_with_lines = false;
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(limits);
  }
  /// Looks for a match from `from` on. Returns whether there is one.
  bool find(std::string_view text, std::size_t from, pcre2_match_data* match) const;
};

bool SplitPattern::Compiled::find(std::string_view text, std::size_t from,
                                  pcre2_match_data* match) const {
  const auto look = [&](std::uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, options,
                       match, limits);
  };
  int found = look(0);
  // What is compiled just in time has a small stack, and long pieces may need the heap.
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) found = look(PCRE2_NO_JIT);
  if (found >= 0 || found == PCRE2_ERROR_NOMATCH) return found >= 0;
  throw ConfigError(
      {.what = "the pattern cannot split this text",
       .where = pattern,
       .got = words_of(found),
       .expected = fmt::format("pieces found in {} steps, in memory that there is", kMostSteps),
       .hint = "a pattern without groups that repeat needs less"});
}

SplitPattern::SplitPattern(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  compiled_->pattern = pattern;
  pcre2_set_match_limit(compiled_->limits, kMostSteps);
  pcre2_set_depth_limit(compiled_->limits, kMostSteps);
  compiled_->ends_with_lines =
      pattern == kGpt2Pattern || pattern == kCl100kPattern || pattern == kO200kPattern;
  const std::string text = with_own_white_space(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr);
  if (compiled_->code != nullptr) {
    pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);
    return;
  }
  refuse_expression(pattern, words_of(error));
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;

void SplitPattern::split(std::string_view text,
                         const std::function<void(std::string_view piece)>& visit) const {
  pcre2_match_data* const match = pcre2_match_data_create(1, nullptr);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> owner(
      match, &pcre2_match_data_free);
  const auto take = [&](std::size_t begin, std::size_t end) {
    if (begin < end) visit(text.substr(begin, end - begin));
  };
  const auto continues = [&](std::size_t i) { return i < text.size() && (text[i] & 0xC0) == 0x80; };
  std::size_t at = 0;
  for (std::size_t from = 0; from < text.size() && compiled_->find(text, from, match);) {
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(match);
    take(at, ends[0]);
    take(ends[0], ends[1]);
    at = from = ends[1];
    if (ends[0] < ends[1]) continue;
    do ++from;  // nothing matched: a character that is in no match
    while (continues(from));
  }
  take(at, text.size());
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
