// Text as bytes: named files and folders of UTF-8 text, one after another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/data/token_sequence.h"

namespace ddprun {

/// The bytes of all files, in memory. A folder is read recursively in the order of its sorted
/// paths. Symbolic links, files that are not valid UTF-8 and files that hold a NUL are skipped;
/// skipped() counts them.
class TextCorpus final : public TokenSequence {
 public:
  /// Throws ConfigError if a path is missing, unreadable, empty or larger than memory, or if a path
  /// names a file that is not UTF-8, or no file at all but a pipe or a device.
  /// `document_end`: the byte that ends a document; -1: none does.
  explicit TextCorpus(const std::vector<std::string>& paths, std::int64_t document_end = -1);

  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  std::int64_t files() const { return static_cast<std::int64_t>(paths_.size()); }
  /// "2 symbolic links, 40 files that are not UTF-8 text"; empty if nothing was skipped.
  std::string skipped() const;

  std::uint64_t content_hash() const override;
  /// All bytes are in memory: what happens to the files now does not matter.
  void check_unchanged() const override {}
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const override;
  std::vector<FilePiece> pieces(std::int64_t begin, std::int64_t count) const override;

 private:
  void add_file(const std::string& path);
  void add_folder(const std::string& path);
  void add(const std::string& path, const std::string& text);

  std::string bytes_;
  std::vector<std::string> paths_;  ///< of each file
  std::vector<std::int64_t> ends_;  ///< number of bytes up to and with each file
  std::int64_t skipped_links_ = 0;
  std::int64_t skipped_binaries_ = 0;
};

/// The length of the longest prefix of `text` that is valid UTF-8; the size of `text` if all of it
/// is.
std::size_t valid_utf8_prefix(const std::string& text);

}  // namespace ddprun
