// What a model is trained on: the YAML section `data:`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

class Options;

/// `data.source`
enum class DataKind { text, tokens, random };
constexpr auto choice_names(DataKind) { return std::array{"text", "tokens", "random"}; }

/// `data.token_type`: the type of a token in token files, little-endian.
enum class TokenType { uint16, uint32 };
constexpr auto choice_names(TokenType) { return std::array{"uint16", "uint32"}; }

/// `data.order`: which windows of the files the samples of a step are.
enum class DataOrder { random, shuffled, sequential };
constexpr auto choice_names(DataOrder) { return std::array{"random", "shuffled", "sequential"}; }

struct DataConfig {
  DataKind source = DataKind::random;
  /// Files or folders (text), files (tokens); relative to the YAML file.
  std::vector<std::string> path = {};
  /// What share of the samples is of each path; empty: the paths are one sequence.
  std::vector<double> weights = {};
  TokenType token_type = TokenType::uint16;
  DataOrder order = DataOrder::random;
  /// What the tokens of token files are: a tokenizer.json; empty: nobody says.
  std::string tokenizer = {};
  /// The token behind which another document begins; -1: nobody says.
  std::int64_t document_end = -1;
};

void declare_options(Options& options, DataConfig& config);

}  // namespace ddprun
