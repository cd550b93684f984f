// Hidden folders, renames, and one file that names the latest.
#include "ddprun/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddprun/base/durable_file.h"
#include "ddprun/base/error.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".unfinished";

[[noreturn]] void throw_cannot_save(const fs::path& path, const std::string& why) {
  throw Error({.what = "checkpoints cannot be saved there",
               .where = path.string(),
               .got = why,
               .expected = "a folder that can be written, which all ranks see",
               .hint = "train.checkpoint.path says where"});
}

void check(int error, const fs::path& path) {
  if (error != 0) throw_cannot_save(path, std::strerror(error));
}

Descriptor lock(const fs::path& folder) {
  const fs::path file = folder / ".lock";
  Descriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (opened.get() < 0) throw_cannot_save(file, std::strerror(errno));
  if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw Error({.what = "another run saves its checkpoints there",
                 .where = folder.string(),
                 .got = "a lock that a running process holds",
                 .expected = "a folder for each run",
                 .hint = "end that run, or set another train.checkpoint.path"});
  }
  return opened;
}

bool holds(const fs::path& checkpoint, const std::map<std::string, FileHashes>& files) {
  try {
    return read_state(checkpoint).files == files;
  } catch (const ConfigError&) {  // nobody knows what it holds
    return false;
  }
}

}  // namespace

fs::path hidden_checkpoint(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format(".{}{}", checkpoint_name(step), kUnfinished);
}

CheckpointFolder::CheckpointFolder(fs::path path) : path_(std::move(path)) {
  try {
    fs::create_directories(path_);
    lock_ = lock(path_);
    remove_unfinished();
  } catch (const fs::filesystem_error& error) {
    throw_cannot_save(path_, error.code().message());
  }
}

void CheckpointFolder::remove_unfinished() {
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename();
    const bool ours = name.starts_with('.') && name.ends_with(kUnfinished);
    if (ours && checkpoint_step(name.substr(1, name.size() - 1 - kUnfinished.size())) >= 0) {
      unfinished.push_back(entry.path());
    }
  }
  for (const fs::path& path : unfinished) fs::remove_all(path);
}

void CheckpointFolder::begin(std::int64_t step) {
  fs::remove_all(hidden_checkpoint(path_, step));
  fs::create_directory(hidden_checkpoint(path_, step));
}

void CheckpointFolder::complete(const CheckpointState& state) {
  const fs::path hidden = hidden_checkpoint(path_, state.step);
  check(write_durably(hidden / kStateFile, to_json_text(state)), hidden);
  const fs::path named = path_ / checkpoint_name(state.step);
  const fs::path replaced = fs::exists(named) ? make_room(state) : fs::path();
  fs::rename(hidden, named);
  check(sync_to_disk(path_), path_);
  check(write_durably(path_ / kLatestFile, checkpoint_name(state.step) + "\n"), path_);
  if (!replaced.empty()) fs::remove_all(replaced);
}

/// Renames what stands at the place of a checkpoint. Returns where it is now if the new one has the
/// same bytes, so that nobody needs it: a save that was cut short before `latest` named it leaves
/// such a one. Other bytes are of a run that was gone on from before them, and keep a name.
fs::path CheckpointFolder::make_room(const CheckpointState& state) {
  const fs::path named = path_ / checkpoint_name(state.step);
  const bool same = holds(named, state.files);
  fs::path aside = same ? hidden_checkpoint(path_, state.step + 1) : fs::path();
  for (int number = 1; aside.empty() || (!same && fs::exists(aside)); ++number) {
    aside = fmt::format("{}.replaced-{}", named.string(), number);
  }
  fs::rename(named, aside);
  return same ? aside : fs::path();
}

void CheckpointFolder::prune(std::int64_t step, std::int64_t keep, std::int64_t keep_every) {
  if (keep == 0) return;
  auto there = checkpoints_in(path_);
  there.erase(there.upper_bound(step), there.end());
  std::erase_if(there, [keep_every](const auto& each) {
    return keep_every > 0 && each.first % keep_every == 0;
  });
  while (std::ssize(there) > keep) {
    const fs::path hidden = hidden_checkpoint(path_, there.begin()->first);
    fs::rename(there.begin()->second, hidden);  // it is whole, or it is not there
    fs::remove_all(hidden);
    there.erase(there.begin());
  }
}

}  // namespace ddprun
