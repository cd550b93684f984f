// The files of a recorded step's memory: events, categories, the largest blocks, a timeline, and a
// picture for any browser.
//
// Family: memory_files.cpp memory_svg.cpp
#pragma once

#include <filesystem>
#include <string>

#include "ddprun/measure/memory_account.h"

namespace ddprun {

/// The 50 largest blocks of those that were there at some time within the step, and behind them the
/// largest of each operation that is not among them.
std::string allocations_csv(const MemoryAccount& account);
/// For Perfetto: the phases, and a counter track for each category, MB.
std::string memory_timeline_json(const MemoryAccount& account);

/// The names of the files in a row's folder.
inline constexpr const char* kMemoryPicture = "memory.svg";

/// Writes these, memory.json, memory.csv and memory.svg into `folder`. Throws Error.
void write_memory_files(const std::filesystem::path& folder, const MemoryAccount& account);

/// Writes a file of a rank, and its folder. Throws Error.
void write_profile(const std::filesystem::path& path, const std::string& text);

/// What tensors hold over the step, in MB over ms: the categories stacked, the phases as bands, the
/// peak labelled. Of many events in a thousandth of the step the highest is drawn.
std::string memory_svg(const MemoryAccount& account);

/// Of a category's area: "#4e79a7".
const char* colour_of(MemoryCategory category);

}  // namespace ddprun
