// Learns a vocabulary from text, of which long files are read in parts that can be cut apart.
//
// Family: train_tokenizer.cpp text_chunks.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddprun/base/ranges.h"
#include "ddprun/tokenizer/tokenizer.h"

namespace ddprun {

/// What `of` makes of each text, by a thread a text. Throws what it throws, of the first text.
template <class Of>
auto mapped_by_threads(const std::vector<std::string_view>& texts, const Of& of) {
  auto workers = mapped(texts, [&of](std::string_view text) {
    return std::async(std::launch::async, [&of, text] { return of(text); });
  });
  return mapped(workers, [](auto& worker) { return worker.get(); });
}

/// How often each piece of text comes, by its bytes.
using PieceCounts = std::unordered_map<std::string, std::int64_t>;

/// Adds the pieces of texts, without what stands in `special`, by a thread a text.
void count_pieces(const std::vector<std::string_view>& texts, const SplitPattern& pattern,
                  std::vector<std::string> special, PieceCounts& counts);

/// Byte-pair encoding as CS336 trains it (assignment 1, section 2.4): from the 256 bytes on the
/// pair that comes most often becomes a token, of equal ones the pair whose bytes are the greater,
/// until there are `size` tokens with the special ones, which come last, or no pair is left. Throws
/// ConfigError if `size` is less than that of the bytes and special tokens.
Vocabulary train_vocabulary(const PieceCounts& counts, std::int64_t size,
                            const std::string& pattern, const std::vector<std::string>& special);

/// Where a text may be cut, `limit` at most; 0: nowhere that is known.
using Cut = std::function<std::size_t(std::string_view text, std::size_t limit)>;

/// Calls `visit` with one part of the file after another, each in `parts` texts at most, one for a
/// thread. A part has some 8 MB for each of them, and more where nowhere can be cut. Throws
/// ConfigError if the file cannot be read.
void for_each_chunk(const std::filesystem::path& path, std::size_t parts, const Cut& cut,
                    const std::function<void(const std::vector<std::string_view>& texts)>& visit);

}  // namespace ddprun
