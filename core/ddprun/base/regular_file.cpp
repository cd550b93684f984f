// Opens without waiting, looks at what it got, and reads by offset.
#include "ddprun/base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <stdexcept>
#include <vector>

#include "ddprun/base/machine_memory.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

constexpr const char* kCut = "it was cut while it was read";

[[noreturn]] void refuse(const std::string& reason) { throw std::runtime_error(reason); }

const char* noun_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe, not a file";
  return S_ISSOCK(mode) ? "a socket, not a file" : "a device, not a file";
}

std::string bytes_text(std::int64_t bytes) { return counted(bytes, "byte"); }

}  // namespace

FileIdentity identity_of(const struct stat& status) {
  return {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
          status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::optional<FileIdentity> RegularFile::identity() const {
  constexpr std::time_t kCoarsestClockS = 2;  // of file systems
  if (std::time(nullptr) - opened_.st_mtim.tv_sec <= kCoarsestClockS) return {};
  return identity_of(opened_);
}

RegularFile::RegularFile(const std::filesystem::path& path) {
  // stat() before open(): to open a device may do something. O_NONBLOCK: nothing that took the
  // path's place meanwhile can hold this process.
  struct stat before = {};
  if (::stat(path.c_str(), &before) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(before.st_mode)) refuse(noun_of(before.st_mode));
  descriptor_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &opened_) != 0) {
    refuse(std::strerror(errno));
  }
  if (!S_ISREG(opened_.st_mode)) refuse(noun_of(opened_.st_mode));
}

std::int64_t RegularFile::read(std::int64_t offset, void* out, std::int64_t bytes) const {
  std::int64_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(descriptor_.get(), static_cast<char*>(out) + done,
                              static_cast<std::size_t>(bytes - done), offset + done);
    if (n < 0 && errno != EINTR) refuse(std::strerror(errno));
    if (n == 0) break;
    if (n > 0) done += n;
  }
  return done;
}

void RegularFile::visit_pieces(std::int64_t begin, std::int64_t piece_bytes,
                               const VisitPiece& visit) const {
  std::vector<char> piece(static_cast<std::size_t>(piece_bytes));
  for (std::int64_t at = begin; at < size(); at += piece_bytes) {
    const std::int64_t bytes = std::min(piece_bytes, size() - at);
    if (read(at, piece.data(), bytes) != bytes) refuse(kCut);
    visit(at, std::span<const char>(piece).first(static_cast<std::size_t>(bytes)));
  }
}

std::string RegularFile::change() const {
  struct stat now = {};
  if (::fstat(descriptor_.get(), &now) != 0) return std::strerror(errno);
  if (now.st_size != opened_.st_size) {
    return bytes_text(now.st_size) + ", and " + bytes_text(opened_.st_size) + " at first";
  }
  return identity_of(now) == identity_of(opened_) ? "" : "it was written to";
}

std::string read_whole(const std::filesystem::path& path) {
  const RegularFile file(path);
  const auto too_large = [&file] {
    return bytes_text(file.size()) + ", more than memory has to give";
  };
  if (file.size() > available_memory()) refuse(too_large());
  try {
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    if (file.read(0, text.data(), file.size()) != file.size()) refuse(kCut);
    return text;
  } catch (const std::bad_alloc&) {
    refuse(too_large());
  }
}

}  // namespace ddprun
