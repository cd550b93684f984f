// The header of a safetensors file, and elements at their places.
#include "ddprun/checkpoint/tensor_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "ddprun/base/child_process.h"
#include "ddprun/base/descriptor.h"
#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/json.h"
#include "ddprun/base/text.h"
#include "ddprun/checkpoint/safetensors.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// A file that is as long as it will be. Writers through the page cache wait for one another (a
/// lock of the file), and each byte is copied once more. So whole blocks go to the disk directly
/// (O_DIRECT) where the file system has that; what is left at the ends, which another rank's bytes
/// may share a block with, goes through the cache.
class DirectFile {
 public:
  /// What a file should be aligned to, so that most of it is whole blocks.
  static constexpr std::int64_t kBlock = 4096;

  /// Opens it for writing. error() tells whether it could.
  explicit DirectFile(const std::filesystem::path& path)
      : cached_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)),
        direct_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT)) {
    if (cached_.get() < 0) error_ = errno;
    if (direct_.get() >= 0) buffer_.reset(static_cast<char*>(std::aligned_alloc(kBlock, kAtOnce)));
  }

  /// 0, or the error number of what failed first.
  int error() const { return error_; }

  /// Writes `bytes` at `offset`, and adds them to `hash`, so that memory is read once.
  void write(std::int64_t offset, const char* data, std::int64_t bytes, Hash64& hash) {
    const std::int64_t end = offset + bytes;
    const std::int64_t first = std::min((offset + kBlock - 1) / kBlock * kBlock, end);
    const std::int64_t last = std::max(first, end / kBlock * kBlock);
    write_parts(offset, data, first - offset, hash, /*in_blocks=*/false);
    write_parts(first, data + (first - offset), last - first, hash, /*in_blocks=*/true);
    write_parts(last, data + (last - offset), end - last, hash, /*in_blocks=*/false);
  }

  /// Waits until all is on the disk.
  void sync() {
    if (error_ == 0 && ::fsync(cached_.get()) != 0) error_ = errno;
  }

 private:
  static constexpr std::int64_t kAtOnce = std::int64_t{4} << 20;

  void write_at(const Descriptor& file, std::int64_t offset, const char* data, std::int64_t bytes) {
    while (bytes > 0 && error_ == 0) {
      const ssize_t written = ::pwrite(file.get(), data, static_cast<std::size_t>(bytes), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        error_ = written < 0 ? errno : ENOSPC;
        return;
      }
      data += written;
      offset += written;
      bytes -= written;
    }
  }

  /// `in_blocks`: past the cache, as long as the file system takes it.
  void write_parts(std::int64_t offset, const char* data, std::int64_t bytes, Hash64& hash,
                   bool in_blocks) {
    for (std::int64_t done = 0; done < bytes && error_ == 0; done += kAtOnce) {
      const std::int64_t part = std::min(bytes - done, kAtOnce);
      hash.add(data + done, static_cast<std::size_t>(part));
      if (in_blocks && buffer_ && write_block(offset + done, data + done, part)) continue;
      write_at(cached_, offset + done, data + done, part);
    }
  }

  /// Through a buffer that stays in the processor's cache. False: the file system wants other
  /// blocks than these, and nothing was written.
  bool write_block(std::int64_t offset, const char* data, std::int64_t bytes) {
    std::memcpy(buffer_.get(), data, static_cast<std::size_t>(bytes));
    write_at(direct_, offset, buffer_.get(), bytes);
    if (error_ != EINVAL) return true;
    error_ = 0;
    buffer_.reset();
    return false;
  }

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  Descriptor cached_, direct_;
  std::unique_ptr<char, Free> buffer_;  ///< aligned; none: the file system has no O_DIRECT
  int error_ = 0;
};

const char* dtype_name(const TensorSpec& tensor) {
  if (const char* const name = safetensors_dtype(tensor.dtype)) return name;
  throw Error({.what = "a checkpoint cannot hold tensors of this dtype",
               .where = tensor.name,
               .got = at::toString(tensor.dtype),
               .expected = "a dtype of the safetensors format of 16 bits or more, or bytes",
               .hint = "keep what a plugin carries in another dtype"});
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
  begin_ = bytes_in_memory<std::uint64_t>(text.size()) + text;
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
