// Bytes, or a tokenizer.
#include "ddprun/data/text_codec.h"

namespace ddprun {

TextCodec::TextCodec(const DataConfig& config) : bytes_(config.source == DataKind::text) {
  if (config.source != DataKind::tokens || config.tokenizer.empty()) return;
  tokenizer_ = std::make_shared<const Tokenizer>(read_tokenizer(config.tokenizer));
}

std::vector<std::int64_t> TextCodec::encode(const std::string& text) const {
  std::vector<std::int64_t> out;
  if (tokenizer_) {
    const std::vector<std::int32_t> tokens = tokenizer_->encode(text);
    out.assign(tokens.begin(), tokens.end());
  } else {
    for (const char byte : text) out.push_back(static_cast<unsigned char>(byte));
  }
  return out;
}

std::int64_t TextCodec::text_bytes(const std::vector<std::int64_t>& tokens) const {
  return std::ssize(tokenizer_ ? tokenizer_->decode(tokens, /*with_marks=*/false) : decode(tokens));
}

std::string TextCodec::decode(const std::vector<std::int64_t>& tokens) const {
  std::string out;
  for (const std::int64_t token : tokens) {
    if (token >= size()) {
      out += '?';
    } else {
      out += tokenizer_ ? tokenizer_->decode({token}) : std::string(1, static_cast<char>(token));
    }
  }
  return out;
}

}  // namespace ddprun
