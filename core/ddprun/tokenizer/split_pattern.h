// Cuts text into the pieces within which byte pairs are merged.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

/// The patterns of GPT-2, and of the encodings cl100k (GPT-4, Llama 3's but for digits) and o200k
/// (GPT-4o).
extern const char* const kGpt2Pattern;
extern const char* const kCl100kPattern;
extern const char* const kO200kPattern;
/// The pattern of that name ("gpt2", "cl100k", "o200k"), or `name` itself, which then is one.
std::string pattern_named(const std::string& name);

/// A regular expression over Unicode, compiled (PCRE2, just in time). White space is Unicode's
/// White_Space, as in the tokenizers that use such patterns. Any thread.
class SplitPattern {
 public:
  /// Throws ConfigError if it is no regular expression.
  explicit SplitPattern(const std::string& pattern);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;

  /// All of `text` in pieces, in order: what matches, and what lies between. Bytes that are no
  /// UTF-8 match nothing.
  void split(std::string_view text, const std::function<void(std::string_view piece)>& visit) const;
  /// Where a text may be cut without changing its pieces, `limit` at most and as late as possible;
  /// 0: nowhere that is known. Of the three patterns above alone, which end a piece with a line's
  /// end if no other white space is before it, and a letter or a digit behind.
  std::size_t cut(std::string_view text, std::size_t limit) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace ddprun
