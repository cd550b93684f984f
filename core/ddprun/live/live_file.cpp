// Plain writes: no output waits for the disk.
#include "ddprun/live/live_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "ddprun/base/child_process.h"
#include "ddprun/base/durable_file.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_reason(const fs::path& path, const std::string& reason) {
  throw std::runtime_error(fmt::format("{}: {}", path.string(), reason));
}

}  // namespace

LiveFile::LiveFile(const fs::path& path) : path_(path) {
  std::error_code failure;
  fs::create_directories(path.parent_path(), failure);
  if (failure) throw_reason(path, failure.message());
  file_ = Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file_.get() < 0) throw_reason(path, std::strerror(errno));
  size_ = lseek(file_.get(), 0, SEEK_END);
}

void LiveFile::append(const std::string& bytes) {
  if (const int error = write_all(file_.get(), bytes); error != 0) {
    const bool whole_again = ftruncate(file_.get(), size_) == 0;
    throw_reason(
        path_, std::strerror(error) + std::string(whole_again ? "" : "; its last line may be cut"));
  }
  size_ += static_cast<std::int64_t>(bytes.size());
}

void replace_file(const fs::path& path, const std::string& text) {
  const auto tell = [&text](const TextSink& sink) { sink(text); };
  const int error = write_whole(path, tell, /*to_disk=*/false);
  if (error != 0) throw_reason(path, std::strerror(error));
}

void try_to_replace(const fs::path& path) {
  std::error_code failure;
  const fs::file_status there = fs::status(path, failure);
  if (fs::is_directory(there)) throw_reason(path, "is a folder");
  if (fs::exists(there) && !fs::is_regular_file(there)) throw_reason(path, "is no file");
  if (path.filename().empty()) throw_reason(path, "no file's name");
  const fs::path partial = partial_of(path);
  const int error = write_plainly(partial, [](const TextSink&) {});
  fs::remove(partial, failure);
  if (error != 0) throw_reason(path, std::strerror(error));
}

}  // namespace ddprun
