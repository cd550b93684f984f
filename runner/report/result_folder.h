// A result folder that appears as a whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

/// The folder `<output>/<name>/<time>/`. Files are written to a hidden folder beside it, which
/// commit() renames. Without commit() the destructor removes it and every folder that this object
/// had to create. If a run is killed, the next run of that name removes its hidden folder.
class ResultFolder {
 public:
  /// Throws ConfigError if the folder cannot be created or written.
  ResultFolder(const std::filesystem::path& output, const std::string& name,
               const std::string& time);
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;

  /// Writes a file ("resolved/01.yaml") to the disk itself. Throws Error.
  void write(const std::string& relative, const std::string& text);

  /// Where a file of that name is until commit().
  std::filesystem::path hidden(const std::string& relative) const { return hidden_ / relative; }

  /// Makes the folder visible, points `<output>/<name>/latest` to it, and returns it. If two
  /// results begin in the same second, the later one is called `<time>-2`. Throws Error.
  std::filesystem::path commit();

 private:
  std::filesystem::path parent_;  ///< <output>/<name>
  std::filesystem::path hidden_;
  /// The topmost folder that did not exist before; empty: all did.
  std::filesystem::path first_created_;
  std::string time_;
};

/// UTC, fit for a folder's name: 2026-01-31T12-00-00Z.
std::string utc_now();

}  // namespace ddprun
