// Reads long texts in parts that can be cut apart.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace ddprun {

/// Where a text may be cut, `limit` at most; 0: nowhere that is known.
using Cut = std::function<std::size_t(std::string_view text, std::size_t limit)>;

/// Calls `visit` with one part of the file after another, each in `parts` texts at most, one for a
/// thread. A part has some 8 MB for each of them, and more where nowhere can be cut. Throws
/// ConfigError if the file cannot be read.
void for_each_chunk(const std::filesystem::path& path, std::size_t parts, const Cut& cut,
                    const std::function<void(const std::vector<std::string_view>& texts)>& visit);

}  // namespace ddprun
