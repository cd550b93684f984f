// Learns a vocabulary from text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddprun/tokenizer/tokenizer.h"

namespace ddprun {

/// How often each piece of text comes, by its bytes.
using PieceCounts = std::unordered_map<std::string, std::int64_t>;

/// Adds the pieces of texts, without what stands in `special`, by a thread a text.
void count_pieces(const std::vector<std::string_view>& texts, const SplitPattern& pattern,
                  const std::vector<std::string>& special, PieceCounts& counts);

/// Byte-pair encoding as CS336 trains it (assignment 1, section 2.4): from the 256 bytes on the
/// pair that comes most often becomes a token, of equal ones the pair whose bytes are the greater,
/// until there are `size` tokens with the special ones, which come last, or no pair is left. Throws
/// ConfigError if `size` is less than that of the bytes and special tokens.
Vocabulary train_vocabulary(const PieceCounts& counts, std::int64_t size,
                            const std::string& pattern, const std::vector<std::string>& special);

}  // namespace ddprun
