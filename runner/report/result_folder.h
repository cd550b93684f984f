// A result folder: hidden while it is empty, and each of its files whole or not there.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "ddprun/base/durable_file.h"

namespace ddprun {

/// The file that makes a folder a result: of run, of verify, of diff, of tune.
inline constexpr const char* kResultFile = "result.json";
inline constexpr const char* kVerifyFile = "verify.json";
inline constexpr const char* kDiffFile = "diff.json";
inline constexpr const char* kTuneFile = "tune.json";
/// In a folder that has files of experiments, too, copies of those that ran.
inline constexpr std::array kResultFiles = {kResultFile, kVerifyFile, kTuneFile};

/// The folder `<output>/<name>/<time>/`. It begins as a hidden folder beside that place, and show()
/// renames it. If it was never shown, the destructor removes it and every folder that this object
/// had to create. If a run is killed before, the next run of that name on this host removes its
/// hidden folder. Any number of runs may begin and end in one place at once, on hosts that share
/// it.
class ResultFolder {
 public:
  /// Throws ConfigError if the folder cannot be created or written.
  ResultFolder(const std::filesystem::path& output, const std::string& name,
               const std::string& time);
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;

  /// Writes a file ("resolved/01.yaml") to the disk itself, and its name with the next show() or
  /// commit(). A file of that name is replaced as a whole, or not at all. Throws Error.
  void write(const std::string& relative, const std::string& text);
  /// The text that `tell` gives to the sink, part by part.
  void write(const std::string& relative, const std::function<void(const TextSink&)>& tell);
  /// Removes a file or a folder with all that is in it, if it is there.
  void remove(const std::string& relative);

  /// Where a file of that name is now.
  std::filesystem::path path(const std::string& relative) const { return folder_ / relative; }

  /// Makes the folder visible, for good, with all that was written since. If two results begin in
  /// the same second, the later one is called `<time>-2`. Throws Error.
  void show();
  /// Whether it is visible, with something in that folder of it.
  bool shows(const std::string& relative) const;
  /// It has a whole result.json: shows the folder, points `<output>/<name>/latest` to it where the
  /// file system has links, and returns it. Throws Error.
  std::filesystem::path commit();

 private:
  /// Returns false, if it `may_fail`, where another run has removed the parent meanwhile: that is
  /// empty until this folder stands in it.
  bool create(bool may_fail);

  std::filesystem::path parent_;  ///< <output>/<name>
  std::filesystem::path folder_;  ///< hidden, then shown
  bool shown_ = false;
  std::set<std::filesystem::path>
      unsynced_;  ///< parts of it with names that are not on the disk yet
  /// The topmost folder that did not exist before; empty: all did.
  std::filesystem::path first_created_;
  std::string time_;
};

/// UTC, fit for a folder's name: 2026-01-31T12-00-00Z.
std::string utc_now();

}  // namespace ddprun
