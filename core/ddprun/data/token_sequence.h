// A finite sequence of tokens, from files: text as bytes, or files of tokens; and paths with
// wildcards.
//
// Family: matching_files.cpp text_corpus.cpp token_files.cpp
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/data/data_config.h"

namespace ddprun {

/// Consecutive tokens of one file.
struct FilePiece {
  std::string path;
  std::int64_t first = 0;  ///< tokens of the file before it, behind its header
  std::int64_t count = 0;
};

class TokenSequence {
 public:
  virtual ~TokenSequence() = default;
  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Of all tokens, as they were when the files were opened.
  virtual std::uint64_t content_hash() const = 0;
  /// Writes tokens [begin, begin + count) to out, from as many files as it takes. Throws Error if
  /// a file does not hold them any more.
  virtual void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const = 0;
  /// Which files hold tokens [begin, begin + count).
  std::vector<FilePiece> pieces(std::int64_t begin, std::int64_t count) const {
    std::vector<FilePiece> out;
    for_each_piece(begin, count, [&](std::int64_t file, std::int64_t first, std::int64_t here) {
      out.push_back({paths_[file], first, here});
    });
    return out;
  }
  /// Throws Error if a file from which tokens are still read was written to, or cut, since it was
  /// opened.
  virtual void check_unchanged() const = 0;
  /// How many of tokens [begin, begin + count) end a document.
  std::int64_t document_ends(std::int64_t begin, std::int64_t count) const {
    const auto first = std::ranges::lower_bound(*ends_of_documents_, begin);
    return std::ranges::lower_bound(first, ends_of_documents_->end(), begin + count) - first;
  }

 protected:
  /// Calls `take(file, first, count)` for each file that holds some of the tokens
  /// [begin, begin + count).
  template <class Take>
  void for_each_piece(std::int64_t begin, std::int64_t count, const Take& take) const {
    auto file = std::ranges::upper_bound(ends_, begin) - ends_.begin();
    for (; count > 0; ++file) {
      const std::int64_t file_begin = file == 0 ? 0 : ends_[file - 1];
      const std::int64_t here = std::min(count, ends_[file] - begin);
      if (here > 0) take(file, begin - file_begin, here);
      begin += here;
      count -= here;
    }
  }

  std::vector<std::string> paths_;  ///< of each file
  std::vector<std::int64_t> ends_;  ///< number of tokens up to and with each file
  /// Ascending places of tokens. Forked ranks share those of the plan.
  std::shared_ptr<const std::vector<std::int64_t>> ends_of_documents_ =
      std::make_shared<std::vector<std::int64_t>>();
};

/// What `*`, `?` and `[...]` in a path match, in order; a path without them, and one that is there
/// as it stands, is itself. Throws ConfigError if nothing matches.
std::vector<std::string> matching_files(const std::string& path);
/// The same of several, one after another.
std::vector<std::string> matching_files(const std::vector<std::string>& paths);

/// The bytes of all files, in memory. A folder is read recursively in the order of its sorted
/// paths. Symbolic links, files that are not valid UTF-8 and files that hold a NUL are skipped;
/// skipped() counts them.
class TextCorpus final : public TokenSequence {
 public:
  /// Throws ConfigError if a path is missing, unreadable, empty or larger than memory, or if a path
  /// names a file that is not UTF-8, or no file at all but a pipe or a device.
  /// `document_end`: the byte that ends a document; -1: none does.
  explicit TextCorpus(const std::vector<std::string>& paths, std::int64_t document_end = -1);

  std::int64_t files() const { return static_cast<std::int64_t>(paths_.size()); }
  /// "2 symbolic links, 40 files that are not UTF-8 text"; empty if nothing was skipped.
  std::string skipped() const;

  std::uint64_t content_hash() const override;
  /// All bytes are in memory: what happens to the files now does not matter.
  void check_unchanged() const override {}
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const override;

 private:
  void add_file(const std::string& path);
  void add_folder(const std::string& path);
  void add(const std::string& path, const std::string& text);

  std::string bytes_;
  std::int64_t skipped_links_ = 0;
  std::int64_t skipped_binaries_ = 0;
};

/// The length of the longest prefix of `text` that is valid UTF-8; the size of `text` if all of it
/// is.
std::size_t valid_utf8_prefix(const std::string& text);

/// The tokens of several files as one sequence: little-endian uint16 or uint32, as nanoGPT writes
/// them (no header) and llm.c (256 int32 of header). The files stay on the disk and are read, not
/// mapped: of a mapped file that is cut the access would kill the process.
///
/// Throws ConfigError if a file is missing or empty, if its size is no multiple of the token's, if
/// its header does not fit it, or if a token is not below vocab_size. All tokens are read for that,
/// which is logged where it takes long; but not again, in this process and those that it forks,
/// unless a file was written to.
/// `document_end`: the token that ends a document; -1: none does.
std::unique_ptr<TokenSequence> open_token_files(const std::vector<std::string>& paths,
                                                TokenType type, std::int64_t vocab_size,
                                                std::int64_t document_end);

}  // namespace ddprun
