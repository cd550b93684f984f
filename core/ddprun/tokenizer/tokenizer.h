// Byte-level byte-pair encoding (Sennrich et al. 2016; Radford et al. 2019): text to numbers and
// back. Files of tokenizers: Hugging Face's tokenizer.json, and tiktoken's ranks.
//
// Family: tokenizer.cpp tokenizer_file.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddprun/tokenizer/pair_map.h"
#include "ddprun/tokenizer/split_pattern.h"

namespace ddprun {

/// What a tokenizer is made of. Tokens are numbered by their places; an empty one is a number that
/// no text has.
struct Vocabulary {
  std::vector<std::string> tokens = {};  ///< bytes, special tokens' texts included
  /// Which tokens are joined, the first ones first, and to which.
  struct Join {
    std::int32_t left = 0, right = 0, token = 0;
  };
  std::vector<Join> joins = {};
  std::vector<std::int32_t> special = {};  ///< tokens that stand for their own text alone
  std::vector<std::int32_t> marks = {};    ///< those of them that are no text: they stand beside it
  std::string pattern = kGpt2Pattern;
  /// Whether a piece that is a token is that token, whatever joins would make of it.
  bool whole_pieces_first = false;
};

/// Whether a special token's text goes over the end of a line, where texts would be cut.
bool over_lines(const std::vector<std::string>& special);

/// Encodes and decodes. Any thread.
class Tokenizer {
 public:
  /// Throws ConfigError, with `where`, if a byte is no token, or a join or a special token is of
  /// tokens that are not there.
  Tokenizer(Vocabulary vocabulary, const std::string& where);

  /// Appends the tokens of a text. Texts of special tokens become these, the longest one first, if
  /// `with_special`. Bytes that are no UTF-8 are tokens of their own.
  void encode(std::string_view text, std::vector<std::int32_t>& out,
              bool with_special = true) const;
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes of tokens; of a number that is none, nothing, and of marks, unless `with_marks`.
  std::string decode(const std::vector<std::int64_t>& tokens, bool with_marks = true) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::int64_t size() const { return std::ssize(vocabulary_.tokens); }
  /// Throws ConfigError if there is no special token of that text.
  std::int32_t special(const std::string& text) const;
  /// As SplitPattern::cut(), of tokens.
  std::size_t cut(std::string_view text, std::size_t limit) const;

 private:
  void encode_plain(std::string_view text, std::vector<std::int32_t>& out) const;

  Vocabulary vocabulary_;
  SplitPattern pattern_;
  PairMap merges_;
  std::vector<std::int32_t> bytes_;  ///< the token of each byte
  std::unordered_map<std::string_view, std::int32_t> whole_;
  std::vector<std::int32_t> special_;  ///< the longest text first
};

/// Reads a tokenizer.json, whose model must be a byte-level BPE without a normalizer, or a file of
/// ranks: a token in base64 and its number a line, which says neither a pattern nor special tokens.
/// `pattern`: a name or a regular expression, for ranks; empty: that of the file. Throws
/// ConfigError for what is not known, or not whole.
Tokenizer read_tokenizer(const std::filesystem::path& path, const std::string& pattern = {});

/// The vocabulary as a tokenizer.json.
std::string to_tokenizer_json(const Vocabulary& vocabulary);

}  // namespace ddprun
