// `ddprun tokenize` and `ddprun tokenizer train`: token files from text, and vocabularies.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/text.h"
#include "ddprun/config/options_io.h"
#include "ddprun/tokenizer/tokenizer.h"
#include "ddprun/tokenizer/train_tokenizer.h"
#include "runner/command/commands.h"
#include "runner/command/out_file.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUint16Tokens = 1 << 16;

std::size_t threads() { return std::max(1U, std::thread::hardware_concurrency()); }

std::int64_t bytes_of(const std::vector<std::string>& paths) {
  std::int64_t bytes = 0;
  std::error_code ignored;  // whoever reads it says what is wrong
  for (const std::string& path : paths) {
    bytes +=
        static_cast<std::int64_t>(fs::is_regular_file(path) ? fs::file_size(path, ignored) : 0);
  }
  return bytes;
}

std::string rate(std::int64_t bytes, std::int64_t begin_ns) {
  return fmt::format("{:.1f} MB/s", static_cast<double>(bytes) * 1e-6 / seconds_since(begin_ns));
}

/// Little-endian, as token files are.
template <class Number>
void append(const std::vector<std::int32_t>& tokens, std::string& out) {
  for (const std::int32_t token : tokens) out += bytes_in_memory(static_cast<Number>(token));
}

/// A file's name as text of YAML, in braces.
std::string yaml_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./";
  const bool plain = text.find_first_not_of(kPlain) == std::string::npos;
  return plain && !text_node(text).quoted ? text : json_text(text);
}

class Encoder {
 public:
  Encoder(const Request& request, const Tokenizer& tokenizer)
      : request_(request), tokenizer_(tokenizer), wide_(tokenizer.size() > kUint16Tokens) {
    if (!request.end_token.empty()) end_ = {tokenizer.special(request.end_token)};
  }

  void write(const TextSink& sink) {
    const Cut cut = [this](std::string_view text, std::size_t limit) {
      return tokenizer_.cut(text, limit);
    };
    for (const std::string& path : request_.paths) {
      for_each_chunk(path, threads(), cut, [&](const auto& texts) { write(texts, sink); });
      write(end_, sink);
    }
  }

  std::int64_t tokens() const { return tokens_; }
  /// The section `data:` of an experiment that trains on them.
  std::string section() const {
    return fmt::format("{{source: tokens, path: {}, token_type: {}, tokenizer: {}{}}}",
                       yaml_word(request_.output == kStdout ? "FILE" : request_.output),
                       wide_ ? "uint32" : "uint16", yaml_word(request_.vocabulary),
                       end_.empty() ? "" : fmt::format(", document_end: {}", end_.front()));
  }

 private:
  void write(const std::vector<std::string_view>& texts, const TextSink& sink) {
    const auto encoded = [this](std::string_view text) { return tokenizer_.encode(text); };
    for (const auto& tokens : mapped_by_threads(texts, encoded)) write(tokens, sink);
  }

  void write(const std::vector<std::int32_t>& tokens, const TextSink& sink) {
    std::string bytes;
    if (wide_) {
      append<std::uint32_t>(tokens, bytes);
    } else {
      append<std::uint16_t>(tokens, bytes);
    }
    tokens_ += std::ssize(tokens);
    sink(bytes);
  }

  const Request& request_;
  const Tokenizer& tokenizer_;
  bool wide_;
  std::vector<std::int32_t> end_;  ///< behind each input
  std::int64_t tokens_ = 0;
};

void check_special(const std::vector<std::string>& special) {
  for (const std::string& text : special) {
    if (!text.empty() && std::ranges::count(special, text) == 1) continue;
    throw ConfigError({.what = "a special token needs a text of its own",
                       .where = "--special",
                       .got = text.empty() ? "an empty text" : text + " twice",
                       .expected = "texts that differ",
                       .hint = "as in --special '<|endoftext|>'"});
  }
}

}  // namespace

int tokenize_command(const Request& request) {
  refuse_as_out(request.output, request.paths);
  refuse_as_out(request.output, {request.vocabulary});
  const std::int64_t begin_ns = now_ns();
  const Tokenizer tokenizer = read_tokenizer(request.vocabulary, request.pattern);
  Encoder encoder(request, tokenizer);
  write_out(request.output, [&](const TextSink& sink) { encoder.write(sink); });
  const std::int64_t bytes = bytes_of(request.paths);
  words_beside(request.output) << fmt::format(
      "{}: {} of {}, {:.2f} bytes a token, {}\n"
      "data: {}\n"
      "model: {{vocab_size: {}}}\n",
      printable_line(request.output), counted(encoder.tokens(), "token"), counted(bytes, "byte"),
      static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, encoder.tokens())),
      rate(bytes, begin_ns), encoder.section(), tokenizer.size());
  return kExitDone;
}

int tokenizer_command(const Request& request) {
  refuse_as_out(request.output, request.paths);
  check_special(request.special);
  const std::int64_t begin_ns = now_ns();
  const std::string name = pattern_named(request.pattern.empty() ? "gpt2" : request.pattern);
  const SplitPattern pattern(name);
  const Cut cut = [&, whole = over_lines(request.special)](std::string_view text,
                                                           std::size_t limit) {
    return whole ? 0 : pattern.cut(text, limit);
  };
  PieceCounts counts;
  for (const std::string& path : request.paths) {
    for_each_chunk(path, threads(), cut, [&](const auto& texts) {
      count_pieces(texts, pattern, request.special, counts);
    });
  }
  const auto vocabulary = train_vocabulary(counts, request.vocabulary_size, name, request.special);
  write_out(request.output, [&](const TextSink& sink) { sink(to_tokenizer_json(vocabulary)); });
  const std::int64_t bytes = bytes_of(request.paths);
  words_beside(request.output) << fmt::format(
      "{}: {}, of {} with {}, {}\n", printable_line(request.output),
      counted(std::ssize(vocabulary.tokens), "token"), counted(bytes, "byte"),
      counted(std::ssize(counts), "different piece"), rate(bytes, begin_ns));
  return kExitDone;
}

}  // namespace ddprun
