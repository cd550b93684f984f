// A file that cannot be written is an error of the command.
#include "runner/command/out_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ddprun/base/child_process.h"
#include "ddprun/base/descriptor.h"
#include "ddprun/base/error.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// Whether a device, a pipe or a link is there.
bool is_no_plain_file(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(path, ignored);
  return fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there);
}

/// Returns 0, or the error number of what failed.
int write_into(const fs::path& path, const std::function<void(const TextSink&)>& tell) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return errno;
  int error = 0;
  tell([&](std::string_view part) {
    if (error == 0) error = write_all(file.get(), std::string(part));
  });
  return error;
}

}  // namespace

void refuse_as_out(const std::string& out, const std::vector<std::string>& read) {
  for (const std::string& path : read) {
    std::error_code ignored;  // what is not there is another file
    if (!fs::equivalent(out, path, ignored)) continue;
    throw ConfigError({.what = "--out names a file that is read",
                       .where = "--out",
                       .got = out,
                       .expected = "another file",
                       .hint = "what is written would take its place"});
  }
}

void write_out(const std::string& out, const std::function<void(const TextSink&)>& tell) {
  const fs::path path = fs::absolute(out);
  if (const int error = is_no_plain_file(path) ? write_into(path, tell) : write_durably(path, tell);
      error != 0) {
    throw Error({.what = "cannot write a file",
                 .where = out,
                 .got = std::strerror(error),
                 .expected = "a file in a folder that is there, and room on its disk",
                 .hint = "--out names it"});
  }
}

}  // namespace ddprun
