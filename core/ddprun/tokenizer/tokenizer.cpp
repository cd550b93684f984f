// Merges within pieces: a short one is searched, a long one has a queue.
#include "ddprun/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

/// Up to here searching all pairs for the least rank is the faster way.
constexpr std::size_t kShort = 48;
/// Pieces of text that a thread remembers with their tokens.
constexpr std::size_t kRemembered = 1 << 16;

[[noreturn]] void refuse_vocabulary(const std::string& where, const std::string& got) {
  throw ConfigError({.what = "the vocabulary is none of byte-level byte-pair encoding",
                     .where = where,
                     .got = got,
                     .expected = "a token for each of the 256 bytes, and joins of tokens that are "
                                 "there",
                     .hint = "`ddprun tokenizer train` makes one"});
}

void merge_short(std::vector<std::int32_t>& tokens, const PairMap& merges) {
  while (tokens.size() > 1) {
    Merge least;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const Merge merge = merges.find(tokens[i], tokens[i + 1]);
      if (merge.rank < 0 || (least.rank >= 0 && merge.rank >= least.rank)) continue;
      least = merge;
      place = i;
    }
    if (least.rank < 0) return;
    tokens[place] = least.token;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

/// The same with a queue of pairs, and tokens in a list.
class LongPiece {
 public:
  LongPiece(std::vector<std::int32_t>& tokens, const PairMap& merges)
      : tokens_(tokens), merges_(merges) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    for (std::int64_t i = 0; i < count; ++i) {
      before_.push_back(i - 1);
      after_.push_back(i + 1 < count ? i + 1 : -1);
    }
    for (std::int64_t i = 0; i + 1 < count; ++i) add(i);
  }

  void merge() {
    while (!queue_.empty()) {
      const Pair pair = queue_.top();
      queue_.pop();
      if (is_there(pair)) join(pair);
    }
    std::vector<std::int32_t> out;
    for (std::int64_t i = 0; i >= 0; i = after_[i]) out.push_back(tokens_[i]);
    tokens_ = std::move(out);
  }

 private:
  struct Pair {
    std::int32_t rank = 0;
    std::int64_t left = 0;
    std::int32_t left_token = 0, right_token = 0, token = 0;
    /// The least rank, and of equal ones the first in the text, is on top.
    bool operator<(const Pair& other) const {
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };

  void add(std::int64_t left) {
    const std::int64_t right = after_[left];
    if (right < 0) return;
    const Merge merge = merges_.find(tokens_[left], tokens_[right]);
    if (merge.rank < 0) return;
    queue_.push({merge.rank, left, tokens_[left], tokens_[right], merge.token});
  }

  bool is_there(const Pair& pair) const {
    if (tokens_[pair.left] != pair.left_token) return false;
    const std::int64_t right = after_[pair.left];
    return right >= 0 && tokens_[right] == pair.right_token;
  }

  void join(const Pair& pair) {
    const std::int64_t right = after_[pair.left];
    tokens_[pair.left] = pair.token;
    tokens_[right] = -1;  // no pair is of it any more
    after_[pair.left] = after_[right];
    if (after_[right] >= 0) before_[after_[right]] = pair.left;
    add(pair.left);
    if (before_[pair.left] >= 0) add(before_[pair.left]);
  }

  std::vector<std::int32_t>& tokens_;
  const PairMap& merges_;
  std::vector<std::int64_t> before_, after_;
  std::priority_queue<Pair> queue_;
};

}  // namespace

bool over_lines(const std::vector<std::string>& special) {
  return std::ranges::any_of(
      special, [](const std::string& text) { return text.find('\n') != std::string::npos; });
}

Tokenizer::Tokenizer(Vocabulary vocabulary, const std::string& where)
    : vocabulary_(std::move(vocabulary)), pattern_(vocabulary_.pattern), bytes_(256, -1) {
  const auto count = static_cast<std::int32_t>(vocabulary_.tokens.size());
  for (std::int32_t token = 0; token < count; ++token) {
    const std::string& text = vocabulary_.tokens[token];
    if (text.empty()) continue;
    const bool special = std::ranges::count(vocabulary_.special, token) > 0;
    if (!special && !whole_.emplace(text, token).second) {
      refuse_vocabulary(where, fmt::format("token {} twice", token));
    }
    if (!special && text.size() == 1) bytes_[static_cast<unsigned char>(text[0])] = token;
  }
  const auto missing = std::ranges::find(bytes_, -1);
  if (missing != bytes_.end()) {
    refuse_vocabulary(where, fmt::format("no token of byte {}", missing - bytes_.begin()));
  }
  std::int32_t rank = 0;
  for (const auto& [left, right, token] : vocabulary_.joins) {
    const auto there = [count](std::int32_t each) { return each >= 0 && each < count; };
    if (!there(left) || !there(right) || !there(token)) refuse_vocabulary(where, "a join of none");
    const std::vector<std::string>& tokens = vocabulary_.tokens;
    if (tokens[left] + tokens[right] != tokens[token]) {
      refuse_vocabulary(where, fmt::format("tokens {} and {} joined to {}", left, right, token));
    }
    if (merges_.find(left, right).rank < 0) merges_.set(left, right, {rank, token});
    ++rank;
  }
  special_ = vocabulary_.special;
  for (const std::int32_t token : special_) {
    if (token < 0 || token >= count || vocabulary_.tokens[token].empty()) {
      refuse_vocabulary(where, fmt::format("a special token {} without text", token));
    }
  }
  std::ranges::stable_sort(special_, std::ranges::greater(),
                           [this](std::int32_t token) { return vocabulary_.tokens[token].size(); });
}

void Tokenizer::encode_plain(std::string_view text, std::vector<std::int32_t>& out) const {
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known;
  std::vector<std::int32_t> tokens;
  pattern_.split(text, [&](std::string_view piece) {
    if (vocabulary_.whole_pieces_first) {
      if (const auto whole = whole_.find(piece); whole != whole_.end()) {
        out.push_back(whole->second);
        return;
      }
    }
    const auto remembered = known.find(piece);
    if (remembered != known.end()) {
      out.insert(out.end(), remembered->second.begin(), remembered->second.end());
      return;
    }
    tokens.clear();
    for (const char byte : piece) tokens.push_back(bytes_[static_cast<unsigned char>(byte)]);
    if (tokens.size() <= kShort) {
      merge_short(tokens, merges_);
    } else {
      LongPiece(tokens, merges_).merge();
    }
    out.insert(out.end(), tokens.begin(), tokens.end());
    if (known.size() < kRemembered && piece.size() <= kShort) known.emplace(piece, tokens);
  });
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out,
                       bool with_special) const {
  std::size_t at = 0;
  std::vector<std::size_t> next(with_special ? special_.size() : 0);  // where each comes next
  while (true) {
    std::size_t first = std::string_view::npos, which = 0;
    for (std::size_t i = 0; i < next.size(); ++i) {  // of those that begin together the longest
      const std::string& token = vocabulary_.tokens[special_[i]];
      if (next[i] <= at) next[i] = text.find(token, at);
      if (next[i] >= first) continue;
      first = next[i];
      which = i;
    }
    encode_plain(text.substr(at, first - at), out);
    if (first == std::string_view::npos) return;
    out.push_back(special_[which]);
    at = first + vocabulary_.tokens[special_[which]].size();
  }
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> out;
  encode(text, out);
  return out;
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& tokens, bool with_marks) const {
  std::string out;
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= size()) continue;
    if (!with_marks && contains(vocabulary_.marks, token)) continue;
    out += vocabulary_.tokens[static_cast<std::size_t>(token)];
  }
  return out;
}

std::int32_t Tokenizer::special(const std::string& text) const {
  for (const std::int32_t token : special_) {
    if (vocabulary_.tokens[token] == text) return token;
  }
  throw ConfigError(
      {.what = "there is no such special token",
       .where = text,
       .got = fmt::format("{} special tokens, and none of that text", special_.size()),
       .expected = "one of the tokenizer's special tokens",
       .hint = "`ddprun tokenizer train --special TEXT` makes one"});
}

std::size_t Tokenizer::cut(std::string_view text, std::size_t limit) const {
  const auto text_of = [this](std::int32_t token) { return vocabulary_.tokens[token]; };
  return over_lines(mapped(special_, text_of)) ? 0 : pattern_.cut(text, limit);
}

}  // namespace ddprun
