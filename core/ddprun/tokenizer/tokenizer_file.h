// Files of tokenizers: Hugging Face's tokenizer.json, and tiktoken's ranks.
#pragma once

#include <filesystem>
#include <string>

#include "ddprun/tokenizer/tokenizer.h"

namespace ddprun {

/// Reads a tokenizer.json, whose model must be a byte-level BPE without a normalizer, or a file of
/// ranks: a token in base64 and its number a line, which says neither a pattern nor special tokens.
/// `pattern`: a name or a regular expression, for ranks; empty: that of the file. Throws
/// ConfigError for what is not known, or not whole.
Tokenizer read_tokenizer(const std::filesystem::path& path, const std::string& pattern = {});

/// The vocabulary as a tokenizer.json.
std::string to_tokenizer_json(const Vocabulary& vocabulary);

}  // namespace ddprun
