// A finite sequence of tokens, from files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "ddprun/data/file_piece.h"

namespace ddprun {

class TokenSequence {
 public:
  virtual ~TokenSequence() = default;
  virtual std::int64_t size() const = 0;
  /// Of all tokens, as they were when the files were opened.
  virtual std::uint64_t content_hash() const = 0;
  /// Writes tokens [begin, begin + count) to out, from as many files as it takes. Throws Error if
  /// a file does not hold them any more.
  virtual void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const = 0;
  /// Which files hold tokens [begin, begin + count).
  virtual std::vector<FilePiece> pieces(std::int64_t begin, std::int64_t count) const = 0;
  /// Throws Error if a file from which tokens are still read was written to, or cut, since it was
  /// opened.
  virtual void check_unchanged() const = 0;
  /// How many of tokens [begin, begin + count) end a document.
  std::int64_t document_ends(std::int64_t begin, std::int64_t count) const {
    const auto first = std::ranges::lower_bound(*ends_of_documents_, begin);
    return std::ranges::lower_bound(first, ends_of_documents_->end(), begin + count) - first;
  }

 protected:
  /// Ascending places of tokens. Forked ranks share those of the plan.
  std::shared_ptr<const std::vector<std::int64_t>> ends_of_documents_ =
      std::make_shared<std::vector<std::int64_t>>();
};

}  // namespace ddprun
