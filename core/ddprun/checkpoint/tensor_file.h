// Writes safetensors files (github.com/huggingface/safetensors, format of version 0.4), several
// ranks at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ddprun/checkpoint/shared_tensors.h"

namespace ddprun {

/// What lies where in a file of these tensors: in their order, but those of whole blocks
/// (DirectFile) and then the largest elements first.
class TensorFileLayout {
 public:
  /// Throws Error if a name comes twice, or the format has no such dtype.
  explicit TensorFileLayout(std::vector<TensorSpec> tensors);

  /// The length of the header, and the header.
  const std::string& begin() const { return begin_; }
  std::int64_t bytes() const { return bytes_; }
  /// Where the tensor's first element is, from the begin of the file.
  std::int64_t offset(const std::string& name) const { return offsets_.at(name); }

 private:
  std::string begin_;
  std::int64_t bytes_ = 0;
  std::map<std::string, std::int64_t> offsets_;
};

/// XXH3 of elements [begin, begin + count) of a tensor, when they were written.
struct PartHash {
  std::int64_t begin = 0, count = 0;
  std::uint64_t hash = 0;
  friend bool operator==(const PartHash&, const PartHash&) = default;
};
struct FileHashes {
  std::uint64_t header = 0;  ///< with its length: names, dtypes, shapes and places
  std::map<std::string, std::vector<PartHash>> tensors = {};
  friend bool operator==(const FileHashes&, const FileHashes&) = default;
};

/// Makes the file, with its header and as long as it will be. Throws Error.
void create_tensor_file(const std::filesystem::path& path, const TensorFileLayout& layout);
/// Writes what this rank writes of `parts` into the file that one rank has made, and waits until it
/// is on the disk. Throws Error.
FileHashes write_parts(const std::filesystem::path& path, const TensorFileLayout& layout,
                       const std::vector<TensorPart>& parts);
/// Both, of a file that this rank alone writes.
FileHashes write_tensor_file(const std::filesystem::path& path, const SharedTensors& tensors);

}  // namespace ddprun
