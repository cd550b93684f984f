// Tokens of files that follow one another, and in which file they are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// Consecutive tokens of one file.
struct FilePiece {
  std::string path;
  std::int64_t first = 0;  ///< tokens of the file before it, behind its header
  std::int64_t count = 0;
};

/// Calls `take(file, first, count)` for each file that holds some of the tokens
/// [begin, begin + count). `ends`: the number of tokens up to and with each file.
template <class Take>
void for_each_piece(const std::vector<std::int64_t>& ends, std::int64_t begin, std::int64_t count,
                    const Take& take) {
  auto file = std::ranges::upper_bound(ends, begin) - ends.begin();
  for (; count > 0; ++file) {
    const std::int64_t file_begin = file == 0 ? 0 : ends[file - 1];
    const std::int64_t here = std::min(count, ends[file] - begin);
    if (here > 0) take(file, begin - file_begin, here);
    begin += here;
    count -= here;
  }
}

/// Those tokens, with the file's path by its number.
template <class PathOf>
std::vector<FilePiece> pieces_of(const std::vector<std::int64_t>& ends, std::int64_t begin,
                                 std::int64_t count, const PathOf& path_of) {
  std::vector<FilePiece> out;
  for_each_piece(ends, begin, count, [&](std::int64_t file, std::int64_t first, std::int64_t here) {
    out.push_back({path_of(file), first, here});
  });
  return out;
}

}  // namespace ddprun
