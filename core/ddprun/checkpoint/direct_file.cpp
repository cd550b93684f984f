// Through an aligned buffer that stays in the processor's cache.
#include "ddprun/checkpoint/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ddprun {

namespace {

constexpr std::int64_t kAtOnce = std::int64_t{4} << 20;

std::int64_t up_to_block(std::int64_t offset) {
  return (offset + DirectFile::kBlock - 1) / DirectFile::kBlock * DirectFile::kBlock;
}

}  // namespace

void DirectFile::Free::operator()(char* memory) const { std::free(memory); }

DirectFile::DirectFile(const std::filesystem::path& path)
    : cached_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)),
      direct_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT)) {
  if (cached_.get() < 0) error_ = errno;
  if (direct_.get() >= 0) buffer_.reset(static_cast<char*>(std::aligned_alloc(kBlock, kAtOnce)));
}

void DirectFile::write_at(const Descriptor& file, std::int64_t offset, const char* data,
                          std::int64_t bytes) {
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

void DirectFile::write_parts(std::int64_t offset, const char* data, std::int64_t bytes,
                             Hash64& hash, bool in_blocks) {
  for (std::int64_t done = 0; done < bytes && error_ == 0; done += kAtOnce) {
    const std::int64_t part = std::min(bytes - done, kAtOnce);
    hash.add(data + done, static_cast<std::size_t>(part));
    if (in_blocks && buffer_ && write_block(offset + done, data + done, part)) continue;
    write_at(cached_, offset + done, data + done, part);
  }
}

bool DirectFile::write_block(std::int64_t offset, const char* data, std::int64_t bytes) {
  std::memcpy(buffer_.get(), data, static_cast<std::size_t>(bytes));
  write_at(direct_, offset, buffer_.get(), bytes);
  if (error_ != EINVAL) return true;
  error_ = 0;
  buffer_.reset();
  return false;
}

void DirectFile::write(std::int64_t offset, const char* data, std::int64_t bytes, Hash64& hash) {
  const std::int64_t end = offset + bytes;
  const std::int64_t first = std::min(up_to_block(offset), end);
  const std::int64_t last = std::max(first, end / kBlock * kBlock);
  write_parts(offset, data, first - offset, hash, /*in_blocks=*/false);
  write_parts(first, data + (first - offset), last - first, hash, /*in_blocks=*/true);
  write_parts(last, data + (last - offset), end - last, hash, /*in_blocks=*/false);
}

void DirectFile::sync() {
  if (error_ == 0 && ::fsync(cached_.get()) != 0) error_ = errno;
}

}  // namespace ddprun
