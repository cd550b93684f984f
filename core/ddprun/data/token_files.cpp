// Token files: recognizes llm.c's header, checks every token once, and reads pieces.
#include "ddprun/data/token_sequence.h"

#include <spdlog/spdlog.h>

#include <bit>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/regular_file.h"

namespace ddprun {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read as they are");

namespace {

constexpr std::int64_t kHeaderBytes = 256 * 4;
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::int32_t kMagicUint16 = 20240520;  // llm.c's data_common.py: GPT-2's tokens
constexpr std::int32_t kMagicUint32 = 20240801;  // and Llama 3's

template <class Token>
constexpr auto kTokenSize = static_cast<std::int64_t>(sizeof(Token));

constexpr const char* kCheckPath = "check data.path";

ConfigError unreadable_tokens(const std::string& path, const std::string& reason) {
  return ConfigError({.what = "the token file cannot be read",
                      .where = path,
                      .got = reason,
                      .expected = "a readable file",
                      .hint = kCheckPath});
}

Error changed(const std::string& path, const std::string& got) {
  return Error({.what = "the data changed while the run read it",
                .where = path,
                .got = got,
                .expected = "a file that stays as it is until the run ends",
                .hint = "run again when nothing writes to it any more"});
}

RegularFile open_file(const std::string& path) {
  try {
    RegularFile file(path);
    if (file.size() > 0) return file;
  } catch (const std::runtime_error& error) {
    throw unreadable_tokens(path, error.what());
  }
  throw ConfigError({.what = "the token file is empty",
                     .where = path,
                     .got = "0 bytes",
                     .expected = "tokens",
                     .hint = kCheckPath});
}

// Bytes to skip at the front: llm.c's header if there is one.
std::int64_t header_bytes(const std::string& path, const RegularFile& file,
                          std::int64_t token_size) {
  std::int32_t header[3] = {};  // magic, version, number of tokens
  if (file.size() < kHeaderBytes || file.read(0, header, sizeof header) < 12) return 0;
  if (header[0] != kMagicUint16 && header[0] != kMagicUint32) return 0;
  const std::int64_t declared_size = header[0] == kMagicUint16 ? 2 : 4;
  if (declared_size != token_size) {
    throw ConfigError({.what = "the header of the token file declares another type of token",
                       .where = path,
                       .got = token_size == 2 ? "uint16" : "uint32",
                       .expected = declared_size == 2 ? "uint16" : "uint32",
                       .hint = "set data.token_type to what the file holds"});
  }
  if (kHeaderBytes + header[2] * declared_size != file.size()) {
    throw ConfigError(
        {.what = "the token file is not as long as its header says",
         .where = path,
         .got = std::to_string(file.size()) + " bytes",
         .expected = std::to_string(kHeaderBytes + header[2] * declared_size) + " bytes",
         .hint = "it was cut, or is still being written: make it again"});
  }
  return kHeaderBytes;
}

// The largest token of a file, and the first that is not in the vocabulary.
template <class Token>
struct Scan {
  Token largest = 0;
  Token bad = 0;
  std::int64_t bad_position = -1;

  // First the maximum, which compilers vectorize. Only if that is too large, a search.
  void add(std::span<const Token> tokens, std::int64_t position, std::int64_t vocab_size) {
    Token here = 0;
    for (const Token token : tokens) here = std::max(here, token);
    largest = std::max(largest, here);
    if (static_cast<std::int64_t>(here) < vocab_size || bad_position >= 0) return;
    const auto found = std::ranges::find_if(tokens, [vocab_size](Token token) {
      return static_cast<std::int64_t>(token) >= vocab_size;
    });
    bad = *found;
    bad_position = position + (found - tokens.begin());
  }
};

// Calls `read` for that file, and says which one it was if that fails.
template <class Read>
auto readable(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw unreadable_tokens(path, error.what());
  }
}

// Says that somebody waits for a file that is read, and for how much longer.
class ReadingWords {
 public:
  void say(const std::string& path, std::int64_t at, std::int64_t size) {
    if (now_ns() < next_ns_) return;
    next_ns_ += kEveryNs;
    spdlog::warn("{}: checked {:.1f} of {:.1f} GB of tokens", path, static_cast<double>(at) * 1e-9,
                 static_cast<double>(size) * 1e-9);
  }

 private:
  static constexpr std::int64_t kEveryNs = 10'000'000'000;
  std::int64_t next_ns_ = now_ns() + kEveryNs;
};

/// What reading all tokens finds.
struct Found {
  std::uint64_t hash = 0;
  std::shared_ptr<const std::vector<std::int64_t>> ends_of_documents = {};
};

/// Reads files one after another, each whole and once.
template <class Token>
class Examination {
 public:
  Examination(std::int64_t vocab_size, std::int64_t document_end)
      : vocab_size_(vocab_size), document_end_(document_end) {}

  /// Checks the file's tokens. Throws ConfigError.
  void add(const std::string& path, const RegularFile& file, std::int64_t header) {
    readable(path, [&] { read(path, file, header); });
  }
  Found found() const {
    return {hash_.value(), std::make_shared<const std::vector<std::int64_t>>(ends_)};
  }

 private:
  void read(const std::string& path, const RegularFile& file, std::int64_t header) {
    Scan<Token> scan;
    ReadingWords words;
    file.visit_pieces(header, kChunkBytes, [&](std::int64_t at, std::span<const char> piece) {
      words.say(path, at, file.size());
      hash_.add(piece.data(), piece.size());
      // Memory of malloc's suits any type, and files end with a token.
      const std::span tokens(reinterpret_cast<const Token*>(piece.data()),
                             piece.size() / sizeof(Token));
      scan.add(tokens, (at - header) / kTokenSize<Token>, vocab_size_);
      find_ends(tokens);
    });
    if (scan.bad_position < 0) return;
    throw ConfigError({.what = "a token is not in the vocabulary",
                       .where = path,
                       .got = "token " + std::to_string(scan.bad) + " at position " +
                              std::to_string(scan.bad_position),
                       .expected = "tokens below model.vocab_size = " + std::to_string(vocab_size_),
                       .hint = "raise model.vocab_size to at least " +
                               std::to_string(scan.largest + std::int64_t{1}) +
                               ", or check data.token_type"});
  }

  void find_ends(std::span<const Token> tokens) {
    if (document_end_ >= 0) {
      for (auto at = tokens.begin(); at != tokens.end(); ++at) {
        at = std::find(at, tokens.end(), static_cast<Token>(document_end_));
        if (at == tokens.end()) break;
        ends_.push_back(tokens_ + (at - tokens.begin()));
      }
    }
    tokens_ += static_cast<std::int64_t>(tokens.size());
  }

  std::int64_t vocab_size_, document_end_;
  Hash64 hash_;
  std::vector<std::int64_t> ends_;
  std::int64_t tokens_ = 0;  // so far
};

/// What was found, by what was examined. Forked ranks have what the plan found.
struct Examined {
  std::mutex mutex;
  std::map<std::vector<std::int64_t>, Found> found;
};

Examined& examined() {
  static auto& the_one = *new Examined;
  return the_one;
}

/// Token: std::uint16_t or std::uint32_t.
template <class Token>
class TokenFiles final : public TokenSequence {
 public:
  TokenFiles(const std::vector<std::string>& paths, std::int64_t vocab_size,
             std::int64_t document_end)
      : vocab_size_(vocab_size), document_end_(document_end) {
    for (const std::string& path : paths) {
      RegularFile file = open_file(path);
      if (file.size() % kTokenSize<Token> != 0) {
        throw ConfigError({.what = "the token file ends within a token",
                           .where = path,
                           .got = std::to_string(file.size()) + " bytes",
                           .expected = "a multiple of " + std::to_string(kTokenSize<Token>),
                           .hint = "check data.token_type"});
      }
      const std::int64_t header =
          readable(path, [&] { return header_bytes(path, file, kTokenSize<Token>); });
      ends_.push_back(size() + (file.size() - header) / kTokenSize<Token>);
      paths_.push_back(path);
      files_.push_back({std::move(file), header});
    }
    examine_once();
  }

  std::uint64_t content_hash() const override { return content_hash_; }

  void copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const override {
    for_each_piece(begin, count, [&](std::int64_t file, std::int64_t first, std::int64_t here) {
      copy_from(file, first, here, out);
      out += here;
    });
  }

  void check_unchanged() const override {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (const std::string change = files_[i].file.change(); !change.empty()) {
        throw changed(paths_[i], change);
      }
    }
  }

 private:
  struct File {
    RegularFile file;
    std::int64_t header = 0;  ///< bytes before the first token
  };

  void examine_once() {
    const std::lock_guard lock(examined().mutex);
    std::vector<std::int64_t> key = {kTokenSize<Token>, vocab_size_, document_end_};
    bool known = true;
    for (const File& each : files_) {
      const auto identity = each.file.identity();
      known = known && identity.has_value();
      if (known) key.insert(key.end(), identity->begin(), identity->end());
    }
    const auto earlier = examined().found.find(key);
    Found found;
    if (known && earlier != examined().found.end()) {
      found = earlier->second;
    } else {
      Examination<Token> examination(vocab_size_, document_end_);
      for (std::size_t i = 0; i < files_.size(); ++i) {
        examination.add(paths_[i], files_[i].file, files_[i].header);
      }
      found = examination.found();
    }
    if (known) examined().found[key] = found;
    content_hash_ = found.hash;
    ends_of_documents_ = found.ends_of_documents;
  }

  void copy_from(std::int64_t number, std::int64_t begin, std::int64_t count,
                 std::int64_t* out) const {
    const auto& [file, header] = files_[number];
    std::vector<Token> tokens(count);
    const std::int64_t bytes = count * kTokenSize<Token>;
    try {
      if (file.read(header + begin * kTokenSize<Token>, tokens.data(), bytes) != bytes) {
        throw std::runtime_error(file.change());
      }
    } catch (const std::runtime_error& error) {
      throw changed(paths_[number], error.what());
    }
    if (static_cast<std::int64_t>(*std::ranges::max_element(tokens)) >= vocab_size_) {
      throw changed(paths_[number],
                    "a token that is not in the vocabulary, and was not there at first");
    }
    std::ranges::copy(tokens, out);
  }

  std::vector<File> files_;
  std::int64_t vocab_size_, document_end_;
  std::uint64_t content_hash_ = 0;
};

}  // namespace

std::unique_ptr<TokenSequence> open_token_files(const std::vector<std::string>& paths,
                                                TokenType type, std::int64_t vocab_size,
                                                std::int64_t document_end) {
  if (type == TokenType::uint16) {
    return std::make_unique<TokenFiles<std::uint16_t>>(paths, vocab_size, document_end);
  }
  return std::make_unique<TokenFiles<std::uint32_t>>(paths, vocab_size, document_end);
}

}  // namespace ddprun
