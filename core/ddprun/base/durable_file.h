// Files that are whole, or not there, whatever ends the process or the machine.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun {

/// Takes a text part by part.
using TextSink = std::function<void(std::string_view)>;

/// Writes into what is open, and does not wait for a disk. Returns 0, or the error number of what
/// failed.
int write_into(int descriptor, const std::function<void(const TextSink&)>& tell);
/// The same of a file that is there, or is made.
int write_plainly(const std::filesystem::path& path,
                  const std::function<void(const TextSink&)>& tell);

/// The file beside `target` that becomes it: hidden, and with another end, so that nobody takes it
/// for one.
std::filesystem::path partial_of(const std::filesystem::path& target);
/// Writes that file, and to the disk unless nobody waits for that, then puts it in its place, in a
/// folder that is there. Its name is on the disk when the folder is (sync_to_disk). Returns 0, or
/// the error number of what failed; then `target` is as it was.
int write_whole(const std::filesystem::path& target,
                const std::function<void(const TextSink&)>& tell, bool to_disk = true);
/// The same, with its name.
int write_durably(const std::filesystem::path& target,
                  const std::function<void(const TextSink&)>& tell);
int write_durably(const std::filesystem::path& target, const std::string& text);

/// Waits until a file, or the names in a folder, are on the disk. Returns as above.
int sync_to_disk(const std::filesystem::path& path);

}  // namespace ddprun
