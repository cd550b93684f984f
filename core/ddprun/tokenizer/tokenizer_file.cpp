// Bytes as the characters that tokenizer.json has for them, and the parts of it that are known.
#include "ddprun/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/regular_file.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kMostTokens = 1 << 24;

[[noreturn]] void refuse_tokenizer(const std::string& why) { throw std::runtime_error(why); }

std::string utf8_of(std::uint32_t point) {
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
}

/// The character of each byte: itself where it is printable Latin-1, else one from U+0100 on
/// (GPT-2's bytes_to_unicode).
const std::array<std::string, 256>& characters() {
  static const std::array<std::string, 256> all = [] {
    std::array<std::string, 256> out;
    std::uint32_t beyond = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      out[byte] = utf8_of(printable ? byte : beyond++);
    }
    return out;
  }();
  return all;
}

std::string as_characters(const std::string& bytes) {
  std::string out;
  for (const char byte : bytes) out += characters()[static_cast<unsigned char>(byte)];
  return out;
}

std::string as_bytes(const std::string& text) {
  static const std::map<std::string, char> bytes = [] {
    std::map<std::string, char> out;
    for (std::size_t i = 0; i < 256; ++i) out[characters()[i]] = static_cast<char>(i);
    return out;
  }();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = static_cast<unsigned char>(text[at]) < 0x80 ? 1 : 2;
    const auto found = bytes.find(text.substr(at, length));
    if (found == bytes.end()) refuse_tokenizer("a token that is not of byte-level BPE: " + text);
    out += found->second;
    at += length;
  }
  return out;
}

bool is_nothing(const json& in, const char* key) {
  return !in.contains(key) || in.at(key).is_null() || in.at(key) == "" || in.at(key) == false;
}

void check_byte_level(const json& in, bool with_pattern) {
  if (in.value("type", "") != "ByteLevel") refuse_tokenizer("a pre_tokenizer of another type");
  if (in.value("add_prefix_space", true)) refuse_tokenizer("add_prefix_space");
  if (in.value("use_regex", true) != with_pattern) refuse_tokenizer("use_regex, or no pattern");
}

std::string pattern_of(const json& in) {
  if (in.is_null()) refuse_tokenizer("no pre_tokenizer");
  if (in.value("type", "") != "Sequence") {
    check_byte_level(in, /*with_pattern=*/true);
    return kGpt2Pattern;
  }
  const json& parts = in.at("pretokenizers");
  if (parts.size() != 2 || parts[0].value("type", "") != "Split") {
    refuse_tokenizer("a pre_tokenizer that is no Split and ByteLevel");
  }
  const json& split = parts[0];
  if (split.value("behavior", "") != "Isolated" || split.value("invert", false)) {
    refuse_tokenizer("a Split that is not Isolated");
  }
  check_byte_level(parts[1], /*with_pattern=*/false);
  return split.at("pattern").at("Regex").get<std::string>();
}

void put(std::vector<std::string>& tokens, std::int64_t number, std::string text) {
  if (number < 0 || number >= kMostTokens) refuse_tokenizer(fmt::format("token number {}", number));
  if (number >= std::ssize(tokens)) tokens.resize(static_cast<std::size_t>(number) + 1);
  std::string& place = tokens[static_cast<std::size_t>(number)];
  if (!place.empty() && place != text) refuse_tokenizer(fmt::format("token {} twice", number));
  place = std::move(text);
}

std::pair<std::string, std::string> joined_of(const json& in) {
  if (in.is_array() && in.size() == 2) return {in[0], in[1]};
  const auto text = in.get<std::string>();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) refuse_tokenizer("a merge of one token: " + text);
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_model(const json& model, Vocabulary& out) {
  if (model.value("type", "BPE") != "BPE" || !model.contains("merges")) {
    refuse_tokenizer("a model that is no BPE");
  }
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                          "byte_fallback"}) {
    if (!is_nothing(model, key)) refuse_tokenizer(std::string("model.") + key);
  }
  out.whole_pieces_first = model.value("ignore_merges", false);
  std::map<std::string, std::int32_t> numbers;  // by characters
  for (const auto& [text, number] : model.at("vocab").items()) {
    numbers[text] = number.get<std::int32_t>();
    put(out.tokens, number.get<std::int64_t>(), as_bytes(text));
  }
  const auto number_of = [&numbers](const std::string& text) {
    const auto found = numbers.find(text);
    if (found == numbers.end()) refuse_tokenizer("a merge with no token " + text);
    return found->second;
  };
  for (const json& merge : model.at("merges")) {
    const auto [left, right] = joined_of(merge);
    out.joins.push_back({number_of(left), number_of(right), number_of(left + right)});
  }
}

Vocabulary vocabulary_of(const json& in) {
  Vocabulary out;
  if (!is_nothing(in, "normalizer")) refuse_tokenizer("a normalizer");
  out.pattern = pattern_of(in.at("pre_tokenizer"));
  read_model(in.at("model"), out);
  for (const json& added : in.value("added_tokens", json::array())) {
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (!is_nothing(added, key)) refuse_tokenizer(std::string("added_tokens with ") + key);
    }
    put(out.tokens, added.at("id").get<std::int64_t>(), added.at("content").get<std::string>());
    out.special.push_back(added.at("id").get<std::int32_t>());
    if (added.value("special", true)) out.marks.push_back(out.special.back());
  }
  return out;
}

std::string from_base64(const std::string& text) {
  std::string out(text.size(), '\0');
  std::size_t size = 0;
  const int failed = sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(),
                                       text.data(), text.size(), /*ignore=*/nullptr, &size,
                                       /*b64_end=*/nullptr, sodium_base64_VARIANT_ORIGINAL);
  if (failed != 0) refuse_tokenizer("not base64: " + text);
  out.resize(size);
  return out;
}

/// Every way to put a token together from two others, at the token's rank.
void add_joins(Vocabulary& out) {
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    numbers[out.tokens[i]] = static_cast<std::int32_t>(i);
  }
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const std::string_view token = out.tokens[i];
    for (std::size_t at = 1; at < token.size(); ++at) {
      const auto left = numbers.find(token.substr(0, at)), right = numbers.find(token.substr(at));
      if (left == numbers.end() || right == numbers.end()) continue;
      out.joins.push_back({left->second, right->second, static_cast<std::int32_t>(i)});
    }
  }
}

Vocabulary vocabulary_of_ranks(const std::string& text, const std::string& pattern) {
  if (pattern.empty()) refuse_tokenizer("ranks, and no --pattern, which they do not say");
  Vocabulary out;
  out.whole_pieces_first = true;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string token;
    std::int64_t number = -1;
    std::istringstream words(line);
    if (!(words >> token)) continue;
    if (!(words >> number)) refuse_tokenizer("a line without a number: " + line.substr(0, 40));
    put(out.tokens, number, from_base64(token));
  }
  add_joins(out);
  return out;
}

}  // namespace

Tokenizer read_tokenizer(const fs::path& path, const std::string& pattern) {
  try {
    const std::string text = read_whole(path);
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    const bool is_json = begin != std::string::npos && text[begin] == '{';
    Vocabulary vocabulary =
        is_json ? vocabulary_of(parse_json(text)) : vocabulary_of_ranks(text, pattern);
    if (!pattern.empty()) vocabulary.pattern = pattern_named(pattern);
    return {std::move(vocabulary), path.string()};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw ConfigError({.what = "not a tokenizer that is known here",
                       .where = path.string(),
                       .got = error.what(),
                       .expected = "a tokenizer.json with a byte-level BPE and no normalizer, or "
                                   "ranks of tiktoken",
                       .hint = "`ddprun tokenizer train` makes one"});
  }
}

std::string to_tokenizer_json(const Vocabulary& vocabulary) {
  using ordered = nlohmann::ordered_json;
  const std::vector<std::string>& tokens = vocabulary.tokens;
  ordered vocab = ordered::object(), merges = ordered::array(), added = ordered::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool special = std::ranges::count(vocabulary.special, static_cast<std::int32_t>(i)) > 0;
    if (!special && !tokens[i].empty()) vocab[as_characters(tokens[i])] = i;
  }
  for (const auto& [left, right, token] : vocabulary.joins) {
    merges.push_back({as_characters(tokens[left]), as_characters(tokens[right])});
  }
  for (const std::int32_t token : vocabulary.special) {
    added.push_back({{"id", token},
                     {"content", tokens[token]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", contains(vocabulary.marks, token)}});
  }
  const ordered split = {{"type", "Split"},
                         {"pattern", {{"Regex", vocabulary.pattern}}},
                         {"behavior", "Isolated"},
                         {"invert", false}};
  const auto byte_level = [](bool in_pattern) {
    return ordered{{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", in_pattern}};
  };
  const ordered out = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", ordered::array({split, byte_level(false)})}}},
      {"post_processor", nullptr},
      {"decoder", byte_level(true)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", vocabulary.whole_pieces_first},
        {"vocab", vocab},
        {"merges", merges}}}};
  return out.dump(1) + "\n";
}

}  // namespace ddprun
