// A file that cannot be written is an error of the command.
#include "runner/command/out_file.h"

#include <unistd.h>

#include <cstring>
#include <iostream>

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

/// Returns 0, or an error number.
int write(const std::string& out, const std::function<void(const TextSink&)>& tell) {
  if (out == kStdout) return write_into(STDOUT_FILENO, tell);
  const fs::path path = fs::absolute(out);
  return is_no_plain_file(path) ? write_plainly(path, tell) : write_durably(path, tell);
}

}  // namespace

void refuse_as_out(const std::string& out, const std::vector<std::string>& read) {
  if (out == kStdout) return;
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
  if (const int error = write(out, tell); error != 0) {
    throw Error({.what = "cannot write a file",
                 .where = out == kStdout ? "stdout" : out,
                 .got = std::strerror(error),
                 .expected = "a file in a folder that is there, and room on its disk",
                 .hint = "--out names it"});
  }
}

fs::path new_folder(const fs::path& path) {
  const fs::path folder = fs::absolute(path).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}

std::ostream& words_beside(const std::string& out) {
  return out == kStdout ? std::cerr : std::cout;
}

}  // namespace ddprun
