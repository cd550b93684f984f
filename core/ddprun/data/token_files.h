// Token files: little-endian uint16 or uint32, as nanoGPT writes them (no header) and llm.c (256
// int32 of header).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/base/regular_file.h"
#include "ddprun/data/token_sequence.h"

namespace ddprun {

/// The tokens of several files as one sequence. Token: std::uint16_t or std::uint32_t. The files
/// stay on the disk and are read, not mapped: of a mapped file that is cut the access would kill
/// the process.
template <class Token>
class TokenFiles final : public TokenSequence {
 public:
  /// Throws ConfigError if a file is missing or empty, if its size is no multiple of the token's,
  /// if its header does not fit it, or if a token is not below vocab_size. All tokens are read for
  /// that, which is logged where it takes long; but not again, in this process and those that it
  /// forks, unless a file was written to.
  /// `document_end`: the token that ends a document; -1: none does.
  TokenFiles(const std::vector<std::string>& paths, std::int64_t vocab_size,
             std::int64_t document_end = -1);

  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::uint64_t content_hash() const override { return content_hash_; }
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const override;
  std::vector<FilePiece> pieces(std::int64_t begin, std::int64_t count) const override;
  void check_unchanged() const override;

 private:
  struct File {
    std::string path;
    RegularFile file;
    std::int64_t header = 0;  ///< bytes before the first token
  };
  void examine_once();
  void copy_from(const File& file, std::int64_t begin, std::int64_t count, std::int64_t* out) const;

  std::vector<File> files_;
  std::vector<std::int64_t> ends_;  ///< number of tokens up to and with each file
  std::int64_t vocab_size_, document_end_;
  std::uint64_t content_hash_ = 0;
};

extern template class TokenFiles<std::uint16_t>;
extern template class TokenFiles<std::uint32_t>;

}  // namespace ddprun
