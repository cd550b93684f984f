// The header of a safetensors file, and elements at their places.
#include "ddprun/checkpoint/tensor_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "ddprun/base/child_process.h"
#include "ddprun/base/descriptor.h"
#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/json.h"
#include "ddprun/checkpoint/direct_file.h"
#include "ddprun/checkpoint/safetensors.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

const char* dtype_name(const TensorSpec& tensor) {
  if (const char* const name = safetensors_dtype(tensor.dtype)) return name;
  throw Error({.what = "a checkpoint cannot hold tensors of this dtype",
               .where = tensor.name,
               .got = at::toString(tensor.dtype),
               .expected = "a dtype of the safetensors format of 16 bits or more, or bytes",
               .hint = "keep what a plugin carries in another dtype"});
}

std::string length_of(const std::string& header) {
  const auto length = static_cast<std::uint64_t>(header.size());
  std::string out(sizeof length, '\0');
  for (std::size_t i = 0; i < sizeof length; ++i) {  // little-endian
    out[i] = static_cast<char>((length >> (8 * i)) & 0xff);
  }
  return out;
}

[[noreturn]] void throw_cannot_write(const fs::path& path, int error) {
  throw Error({.what = "cannot write a checkpoint",
               .where = path.string(),
               .got = std::strerror(error),
               .expected = "a folder that can be written, with room for it",
               .hint = "free space or rights may be missing; train.checkpoint.path says where"});
}

Descriptor open_or_throw(const fs::path& path, int flags) {
  Descriptor file(open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (file.get() < 0) throw_cannot_write(path, errno);
  return file;
}

/// Returns 0, or the error number. A full disk shows now, where the file system can tell.
int make_room(int fd, std::int64_t bytes) {
  if (::fallocate(fd, 0, 0, bytes) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  return ::ftruncate(fd, bytes) == 0 ? 0 : errno;
}

}  // namespace

TensorFileLayout::TensorFileLayout(std::vector<TensorSpec> tensors) {
  // Whole blocks first, so that these begin at one; then each at a multiple of its elements' size.
  std::ranges::stable_sort(tensors, std::greater(), [](const TensorSpec& tensor) {
    return std::pair(bytes_of(tensor) % DirectFile::kBlock == 0, c10::elementSize(tensor.dtype));
  });
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::int64_t end = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::int64_t bytes = bytes_of(tensor);
    if (!offsets_.emplace(tensor.name, end).second) {
      throw Error({.what = "two tensors of a checkpoint have one name",
                   .where = "a plugin's declare_state(), or the model",
                   .got = tensor.name,
                   .expected = "each name once",
                   .hint = "rename one of them"});
    }
    header[tensor.name] = {{"dtype", dtype_name(tensor)},
                           {"shape", tensor.sizes},
                           {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string text = json_text(header);
  // With its length of 8 bytes the header is whole blocks.
  const std::size_t beyond = (text.size() + sizeof(std::uint64_t)) % DirectFile::kBlock;
  text.append((DirectFile::kBlock - beyond) % DirectFile::kBlock, ' ');
  begin_ = length_of(text) + text;
  for (auto& [name, offset] : offsets_) offset += static_cast<std::int64_t>(begin_.size());
  bytes_ = static_cast<std::int64_t>(begin_.size()) + end;
}

void create_tensor_file(const fs::path& path, const TensorFileLayout& layout) {
  const Descriptor file = open_or_throw(path, O_WRONLY | O_CREAT | O_TRUNC);
  int error = write_all(file.get(), layout.begin());
  if (error == 0) error = make_room(file.get(), layout.bytes());
  if (error != 0) throw_cannot_write(path, error);
}

FileHashes write_parts(const fs::path& path, const TensorFileLayout& layout,
                       const std::vector<TensorPart>& parts) {
  DirectFile file(path);
  FileHashes hashes{.header = hash64(layout.begin())};
  for (const TensorPart& part : parts) {
    if (!part.writes) continue;
    std::vector<PartHash>& hashes_of_tensor = hashes.tensors[part.name];
    if (part.values.numel() == 0) continue;
    const at::Tensor values = part.values.detach().cpu().contiguous();
    const auto bytes = static_cast<std::int64_t>(values.nbytes());
    const char* const data = static_cast<const char*>(values.const_data_ptr());
    const std::int64_t offset =
        layout.offset(part.name) + part.begin * static_cast<std::int64_t>(values.element_size());
    Hash64 hash;
    file.write(offset, data, bytes, hash);
    hashes_of_tensor.push_back({part.begin, values.numel(), hash.value()});
  }
  file.sync();
  if (file.error() != 0) throw_cannot_write(path, file.error());
  return hashes;
}

FileHashes write_tensor_file(const fs::path& path, const SharedTensors& tensors) {
  const TensorFileLayout layout(tensors.all);
  create_tensor_file(path, layout);
  return write_parts(path, layout, tensors.own);
}

}  // namespace ddprun
