// Pairs with their counts and the pieces they are in, and a queue of them that is mended as it is
// used.
#include "ddprun/tokenizer/train_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

constexpr std::int64_t kBytes = 256;

/// A text without special tokens, in parts.
std::vector<std::string_view> between_special(std::string_view text,
                                              const std::vector<std::string>& special) {
  std::vector<std::string_view> parts = {text};
  for (const std::string& token : special) {
    std::vector<std::string_view> smaller;
    for (std::string_view part : parts) {
      for (std::size_t at; (at = part.find(token)) != std::string_view::npos;) {
        smaller.push_back(part.substr(0, at));
        part.remove_prefix(at + token.size());
      }
      smaller.push_back(part);
    }
    parts = std::move(smaller);
  }
  return parts;
}

/// A piece as it stands now.
struct Word {
  std::vector<std::int32_t> tokens;
  std::int64_t count = 0;
};

using Pair = std::pair<std::int32_t, std::int32_t>;
struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return mix_bits(static_cast<std::uint64_t>(pair.first) << 32 |
                    static_cast<std::uint32_t>(pair.second));
  }
};

class Trainer {
 public:
  Trainer(const PieceCounts& counts, std::int64_t size) : size_(size) {
    tokens_.reserve(static_cast<std::size_t>(size));  // candidates point into it
    for (std::int64_t byte = 0; byte < kBytes; ++byte) {
      tokens_.emplace_back(1, static_cast<char>(byte));
    }
    for (const auto& [piece, count] : counts) {
      Word word{.tokens = {}, .count = count};
      for (const char byte : piece) word.tokens.push_back(static_cast<unsigned char>(byte));
      if (word.tokens.size() > 1) words_.push_back(std::move(word));
    }
    for (std::size_t i = 0; i < words_.size(); ++i) enter(i, +1);
    for (const auto& [pair, found] : pairs_) queue_.push(candidate(pair, found.count));
  }

  void join_all() {
    while (std::ssize(tokens_) < size_ && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t now = pairs_[best.pair].count;
      if (now != best.count) {  // it has changed since
        if (now > 0) queue_.push(candidate(best.pair, now));
        continue;
      }
      join(best.pair);
    }
  }

  std::vector<std::string> tokens_;
  std::vector<Vocabulary::Join> joins_;

 private:
  struct Found {
    std::int64_t count = 0;
    std::vector<std::size_t> words = {};  ///< some have lost it, and some stand twice
  };
  struct Candidate {
    std::int64_t count = 0;
    Pair pair;
    const std::string *left, *right;
    bool operator<(const Candidate& other) const {
      if (count != other.count) return count < other.count;
      if (*left != *other.left) return *left < *other.left;
      return *right < *other.right;
    }
  };

  Candidate candidate(const Pair& pair, std::int64_t count) const {
    return {count, pair, &bytes_of(pair.first), &bytes_of(pair.second)};
  }
  const std::string& bytes_of(std::int32_t token) const {
    return tokens_[static_cast<std::size_t>(token)];
  }

  /// Adds, or takes away, the pairs of a word.
  void enter(std::size_t index, int sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      const Pair pair(word.tokens[i], word.tokens[i + 1]);
      Found& found = pairs_[pair];
      found.count += sign * word.count;
      if (sign > 0 && (found.words.empty() || found.words.back() != index)) {
        found.words.push_back(index);
      }
      changed_.push_back(pair);
    }
  }

  void join(const Pair& pair) {
    const auto token = static_cast<std::int32_t>(tokens_.size());
    tokens_.push_back(bytes_of(pair.first) + bytes_of(pair.second));
    joins_.push_back({pair.first, pair.second, token});
    changed_.clear();
    std::vector<std::size_t> words = std::move(pairs_[pair].words);
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const std::size_t index : words) {
      if (!has(words_[index], pair)) continue;
      enter(index, -1);
      replace(words_[index].tokens, pair, token);
      enter(index, +1);
    }
    pairs_.erase(pair);
    std::ranges::sort(changed_);
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair& each : changed_) {
      const auto found = pairs_.find(each);
      if (found == pairs_.end()) continue;
      if (found->second.count > 0) {
        queue_.push(candidate(each, found->second.count));
      } else {
        pairs_.erase(found);
      }
    }
  }

  static bool has(const Word& word, const Pair& pair) {
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      if (word.tokens[i] == pair.first && word.tokens[i + 1] == pair.second) return true;
    }
    return false;
  }

  static void replace(std::vector<std::int32_t>& tokens, const Pair& pair, std::int32_t token) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < tokens.size(); ++out) {
      const bool here =
          i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
      tokens[out] = here ? token : tokens[i];
      i += here ? 2 : 1;
    }
    tokens.resize(out);
  }

  std::int64_t size_;
  std::vector<Word> words_;
  std::unordered_map<Pair, Found, PairHash> pairs_;
  std::vector<Pair> changed_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void count_pieces(const std::vector<std::string_view>& texts, const SplitPattern& pattern,
                  std::vector<std::string> special, PieceCounts& counts) {
  std::ranges::sort(special, std::greater(), &std::string::size);  // as they are encoded
  const auto counted = [&](std::string_view text) {
    PieceCounts own;
    const auto count = [&own](std::string_view piece) { ++own[std::string(piece)]; };
    for (const std::string_view part : between_special(text, special)) pattern.split(part, count);
    return own;
  };
  for (const PieceCounts& own : mapped_by_threads(texts, counted)) {
    for (const auto& [piece, count] : own) counts[piece] += count;
  }
}

Vocabulary train_vocabulary(const PieceCounts& counts, std::int64_t size,
                            const std::string& pattern, const std::vector<std::string>& special) {
  const std::int64_t least = kBytes + std::ssize(special);
  if (size < least) {
    throw ConfigError({.what = "the vocabulary is too small",
                       .where = "--size",
                       .got = std::to_string(size),
                       .expected = fmt::format("{} at least, the bytes and special tokens", least),
                       .hint = "the course takes 10,000 for TinyStories"});
  }
  Trainer trainer(counts, size - std::ssize(special));
  trainer.join_all();
  Vocabulary out{.tokens = std::move(trainer.tokens_),
                 .joins = std::move(trainer.joins_),
                 .special = {},
                 .pattern = pattern};
  for (const std::string& text : special) {
    out.special.push_back(static_cast<std::int32_t>(out.tokens.size()));
    out.tokens.push_back(text);
  }
  out.marks = out.special;
  return out;
}

}  // namespace ddprun
