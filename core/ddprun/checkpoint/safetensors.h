// Reads safetensors files (github.com/huggingface/safetensors), and believes nothing that they say.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ddprun/base/regular_file.h"
#include "ddprun/checkpoint/weights_file.h"

namespace ddprun {

/// "F32" of a dtype; null: the format, or this reader, does not have it.
const char* safetensors_dtype(at::ScalarType dtype);

/// One file, open for reading. Values are read where they are asked for.
class SafetensorsFile : public WeightsFile {
 public:
  /// Reads the header. Throws ConfigError unless the file keeps the format's rules: a header of at
  /// most 100 MB within the file, JSON in UTF-8 without a name that comes twice, known dtypes, and
  /// tensors that fill the rest of the file without a gap or an overlap.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// XXH3 of the header and its length.
  std::uint64_t header_hash() const { return header_hash_; }

  /// Elements [begin, begin + count) of a tensor that is there, (count,), on the CPU. Throws Error
  /// if the range leaves the tensor, or the file cannot be read.
  at::Tensor read(const std::string& name, std::int64_t begin, std::int64_t count) const;
  /// The same into a tensor of any shape, dtype and device, straight if it can lie there.
  void read_to(const std::string& name, std::int64_t begin, const at::Tensor& values) const;
  /// The same part by part, (n,), in memory that the next part takes again. `first`: its first
  /// element, counted in the tensor.
  void visit(const std::string& name, std::int64_t begin, std::int64_t count,
             const std::function<void(std::int64_t first, const at::Tensor& part)>& visitor) const;
  at::Tensor read(const std::string& name) const override;

 private:
  void read_header();
  void read_into(const std::string& name, std::int64_t begin, const at::Tensor& values) const;

  std::filesystem::path path_;
  RegularFile file_;
  std::uint64_t header_hash_ = 0;
  std::vector<std::int64_t> offsets_;  // of tensors(), from the begin of the file
};

}  // namespace ddprun
