// Token files: memory-mapped little-endian uint16 or uint32, as nanoGPT writes them (no header) and
// llm.c (256 int32 of header).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// The tokens of several files as one sequence. Token: std::uint16_t or std::uint32_t.
template <class Token>
class TokenFiles {
 public:
  /// Throws ConfigError if a file is missing or empty, if its size is no multiple of the token's,
  /// if its header does not fit it, or if a token is not below vocab_size.
  TokenFiles(const std::vector<std::string>& paths, std::int64_t vocab_size);

  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  /// Writes tokens [begin, begin + count) to out, from as many files as it takes.
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const;

 private:
  /// The first token of each file. Destroying it unmaps the file.
  std::vector<std::shared_ptr<const Token>> files_;
  std::vector<std::int64_t> ends_;  ///< number of tokens up to and with each file
};

extern template class TokenFiles<std::uint16_t>;
extern template class TokenFiles<std::uint32_t>;

}  // namespace ddprun
