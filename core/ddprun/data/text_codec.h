// Text as the tokens of a model's data, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/data/data_config.h"
#include "ddprun/tokenizer/tokenizer.h"

namespace ddprun {

/// Of data.source text a token is a byte; of token files data.tokenizer says what tokens are.
class TextCodec {
 public:
  /// Reads the tokenizer. Throws ConfigError.
  explicit TextCodec(const DataConfig& config);

  /// Whether tokens are text at all. If not, nothing else is asked for.
  bool known() const { return bytes_ || tokenizer_ != nullptr; }
  /// How many tokens there may be: 256, or those of the tokenizer.
  std::int64_t size() const { return bytes_ ? 256 : tokenizer_->size(); }
  std::vector<std::int64_t> encode(const std::string& text) const;
  /// How many bytes of text they are. A token that is none has no text, and neither has one that a
  /// tokenizer calls special: it stands between texts.
  std::int64_t text_bytes(const std::vector<std::int64_t>& tokens) const;
  /// A token that is none, of a vocabulary with more of them than the codec has, is "?".
  std::string decode(const std::vector<std::int64_t>& tokens) const;

 private:
  bool bytes_ = false;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace ddprun
