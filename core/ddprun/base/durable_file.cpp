// By fsync and rename.
#include "ddprun/base/durable_file.h"

#include <c10/util/ScopeExit.h>
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
  const fs::path partial = partial_of(target);
  auto unfinished = c10::make_scope_exit([&partial] {
    std::error_code ignored;
    fs::remove(partial, ignored);
  });
  const int error = write_file(partial, tell, to_disk);
  if (error != 0) return error;
  if (std::rename(partial.c_str(), target.c_str()) != 0) return errno;
  unfinished.release();  // by now a file of that name may be another process's
  return 0;
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
