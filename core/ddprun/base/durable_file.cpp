// By fsync and rename.
#include "ddprun/base/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "ddprun/base/child_process.h"
#include "ddprun/base/descriptor.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

/// The disk's errors are those of the descriptor that wrote: it is the one to sync.
int write_file(const fs::path& path, const std::function<void(const TextSink&)>& tell,
               bool to_disk) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return errno;
  const int error = write_into(file.get(), tell);
  return error == 0 && to_disk && fsync(file.get()) != 0 ? errno : error;
}

/// The file beside `target` that becomes it. It goes with the object, unless it has: by then it may
/// be another process's.
struct Unfinished {
  explicit Unfinished(const fs::path& target) : path(partial_of(target)) {}
  ~Unfinished() {
    std::error_code ignored;
    if (!placed) fs::remove(path, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const fs::path path;
  bool placed = false;
};

}  // namespace

int write_into(int descriptor, const std::function<void(const TextSink&)>& tell) {
  constexpr std::size_t kWrittenAtOnce = 1 << 20;
  std::string unwritten;
  int error = 0;
  const auto flush = [&] {
    if (error == 0) error = write_all(descriptor, unwritten);
    unwritten.clear();
  };
  tell([&](std::string_view part) {
    unwritten += part;
    if (unwritten.size() >= kWrittenAtOnce) flush();
  });
  flush();
  return error;
}

int write_plainly(const fs::path& path, const std::function<void(const TextSink&)>& tell) {
  return write_file(path, tell, false);
}

fs::path partial_of(const fs::path& target) {
  return target.parent_path() / ("." + target.filename().string() + ".partial");
}

int write_whole(const fs::path& target, const std::function<void(const TextSink&)>& tell,
                bool to_disk) {
  Unfinished partial(target);
  const int error = write_file(partial.path, tell, to_disk);
  if (error != 0) return error;
  partial.placed = std::rename(partial.path.c_str(), target.c_str()) == 0;
  return partial.placed ? 0 : errno;
}

int write_durably(const fs::path& target, const std::function<void(const TextSink&)>& tell) {
  const int error = write_whole(target, tell);
  return error == 0 ? sync_to_disk(target.parent_path()) : error;
}

int write_durably(const fs::path& target, const std::string& text) {
  return write_durably(target, [&text](const TextSink& sink) { sink(text); });
}

int sync_to_disk(const fs::path& path) {
  const Descriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.get() < 0) return errno;
  // Some file systems have no fsync of folders (EINVAL): nothing more can be done there.
  return fsync(opened.get()) != 0 && errno != EINVAL ? errno : 0;
}

}  // namespace ddprun
