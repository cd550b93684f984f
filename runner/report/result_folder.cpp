// Result folders by rename: of the folder, and of each file.
#include "runner/report/result_folder.h"

#include <fmt/chrono.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/launch/host_layout.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

constexpr const char* kHiddenPrefix = ".unfinished-";
/// How often a folder is created that other runs remove.
constexpr int kTries = 100;

/// Then follows the writer's process id, which says nothing to another host of the file system.
std::string hidden_on_this_host() {
  return fmt::format("{}{:016x}-", kHiddenPrefix, hash64(host_identity()));
}

[[noreturn]] void throw_cannot_write(const fs::path& path, const std::string& why) {
  throw Error({.what = "cannot write a result",
               .where = path.string(),
               .got = why,
               .expected = "a folder that can be written",
               .hint = "free space or rights may be missing; --output DIR writes elsewhere"});
}

void sync_or_throw(const fs::path& path) {
  if (const int error = sync_to_disk(path); error != 0)
    throw_cannot_write(path, std::strerror(error));
}

bool process_exists(const std::string& digits) {
  const auto pid = number_from<pid_t>(digits);
  return pid && *pid > 0 && (kill(*pid, 0) == 0 || errno == EPERM);
}

void remove_stale(const fs::path& parent) {
  const std::string prefix = hidden_on_this_host();
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    if (!process_exists(name.substr(prefix.size()))) stale.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& path : stale) fs::remove_all(path, ignored);
}

/// The topmost part of `path` that does not exist yet.
fs::path first_missing(const fs::path& path) {
  fs::path missing;
  for (fs::path at = fs::absolute(path); !fs::exists(at); at = at.parent_path()) missing = at;
  return missing;
}

}  // namespace

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H-%M-%SZ}", fmt::gmtime(std::time(nullptr)));
}

ResultFolder::ResultFolder(const fs::path& output, const std::string& name, const std::string& time)
    : parent_(output / name),
      folder_(parent_ / (hidden_on_this_host() + std::to_string(getpid()))),
      time_(time) {
  for (int tries = 1; !create(tries < kTries); ++tries) {
  }
}

bool ResultFolder::create(bool may_fail) {
  try {
    first_created_ = first_missing(parent_);
    fs::create_directories(parent_);
    remove_stale(parent_);
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    return true;
  } catch (const fs::filesystem_error& error) {
    if (may_fail && error.code() == std::errc::no_such_file_or_directory) return false;
    throw ConfigError({.what = "results cannot be written there",
                       .where = parent_.string(),
                       .got = error.code().message(),
                       .expected = "a folder that can be created and written",
                       .hint = "output.dir in the YAML, or --output DIR, says where"});
  }
}

ResultFolder::~ResultFolder() {
  if (shown_) return;
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  if (first_created_.empty()) return;
  // Folders of our own making that stayed empty; remove() leaves others alone.
  for (fs::path at = fs::absolute(parent_, ignored); fs::remove(at, ignored);
       at = at.parent_path()) {
    if (at == first_created_) break;
  }
}

void ResultFolder::write(const std::string& relative, const std::string& text) {
  write(relative, [&text](const TextSink& sink) { sink(text); });
}

void ResultFolder::write(const std::string& relative,
                         const std::function<void(const TextSink&)>& tell) {
  const fs::path target = path(relative);
  std::error_code failure;
  fs::create_directories(target.parent_path(), failure);
  if (failure) throw_cannot_write(target, failure.message());
  const int error = write_whole(target, tell);
  if (error != 0) throw_cannot_write(target, std::strerror(error));
  unsynced_.insert({fs::path(), fs::path(relative).parent_path()});
}

void ResultFolder::remove(const std::string& relative) {
  std::error_code ignored;
  fs::remove_all(path(relative), ignored);
}

void ResultFolder::show() {
  for (const fs::path& part : std::exchange(unsynced_, {})) sync_or_throw(folder_ / part);
  if (shown_) return;
  for (int attempt = 1; !shown_; ++attempt) {
    const fs::path final_path =
        parent_ / (attempt == 1 ? time_ : time_ + "-" + std::to_string(attempt));
    if (fs::exists(final_path)) continue;
    // rename() onto a folder that appeared meanwhile fails unless that is empty: nothing is lost
    // either way.
    if (std::rename(folder_.c_str(), final_path.c_str()) == 0) {
      folder_ = final_path;
      shown_ = true;
    } else if (errno != ENOTEMPTY && errno != EEXIST) {
      throw_cannot_write(final_path, std::strerror(errno));
    }
  }
  sync_or_throw(parent_);
}

bool ResultFolder::shows(const std::string& relative) const {
  std::error_code ignored;
  return shown_ && fs::directory_iterator(path(relative), ignored) != fs::directory_iterator();
}

fs::path ResultFolder::commit() {
  show();
  std::error_code error;
  const fs::path link = folder_ / ".latest";  // no other run has this folder
  fs::create_directory_symlink(folder_.filename(), link, error);
  if (error == std::errc::operation_not_permitted || error == std::errc::operation_not_supported ||
      error == std::errc::function_not_supported) {
    spdlog::warn("{} was not made: this file system has no symbolic links",
                 printable_line((parent_ / "latest").string()));
    return folder_;
  }
  if (!error) fs::rename(link, parent_ / "latest", error);
  if (error) {
    const std::string why = error.message();
    fs::remove(link, error);
    throw_cannot_write(parent_ / "latest", why);
  }
  sync_or_throw(parent_);
  return folder_;
}

}  // namespace ddprun
