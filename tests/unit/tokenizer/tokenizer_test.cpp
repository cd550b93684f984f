// Encoding beside its definition: the least rank first, over and over.
#include "ddprun/tokenizer/tokenizer.h"

#include <map>
#include <random>

#include "ddprun/tokenizer/train_tokenizer.h"
#include "support/ddprun_command.h"

namespace ddprun::tokenizer_test {
namespace {

std::vector<std::string> pieces(const char* pattern, std::string_view text) {
  std::vector<std::string> out;
  SplitPattern(pattern).split(text, [&out](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

TEST(SplitPattern, CutsAsThePatternsSay) {
  EXPECT_THAT(pieces(kGpt2Pattern, "Hello world's  12 x!?\n\n y"),
              ElementsAre("Hello", " world", "'s", " ", " 12", " x", "!?", "\n\n", " y"));
  EXPECT_THAT(pieces(kCl100kPattern, "I'M 12345 a--b\n\nc"),
              ElementsAre("I", "'M", " ", "123", "45", " a", "--", "b", "\n\n", "c"));
  EXPECT_THAT(pieces(kO200kPattern, "HelloWorld don't"), ElementsAre("Hello", "World", " don't"));
  EXPECT_THAT(pieces(kGpt2Pattern, "a\u0085\u0085b"), ElementsAre("a", "\u0085", "\u0085", "b"))
      << "U+0085 is white space";
  EXPECT_THAT(pieces(kGpt2Pattern, "!\u180E!\u3000"), ElementsAre("!\u180E!", "\u3000"))
      << "U+180E is none";
  EXPECT_THAT(pieces(R"([[:alpha:]\s]+|.)", "ab c1 d"), ElementsAre("ab c", "1", " d"));
  EXPECT_THAT(pieces(R"([]\s-]+|[^]\S]|.)", "a]- b"), ElementsAre("a", "]- ", "b"));
  EXPECT_THAT(pieces(R"([\s\S])", "\u180E\u0085"), ElementsAre("\u180E", "\u0085"));
}

TEST(SplitPattern, RefusesWhatPcreReadsOtherwise) {
  for (const char* pattern :
       {R"([\p{L}&&[^\p{Han}]]+)", "[a[bc]]", "[[bc]]", "[[:x]", "[a[:b]", R"([^[:]+\s)"}) {
    EXPECT_THAT(test::error_of<ConfigError>([&] { const SplitPattern broken(pattern); }),
                HasSubstr("within a class"));
  }
  EXPECT_THAT(pieces(R"([\[a]+|&&|.)", "[a&&b"), ElementsAre("[a", "&&", "b"));
}

TEST(SplitPattern, GoesOnBehindWhatTakesMuchToFindAndBehindNothing) {
  const std::string letters(1 << 20, 'a');
  EXPECT_THAT(pieces(R"((?:[a-z]|[0-9])+|\s+)", letters + " b1 c"),
              ElementsAre(letters, " ", "b1", " ", "c"))
      << "more than the stack holds of what is compiled just in time";
  const std::string spaces(12'000'000, ' ');
  EXPECT_EQ(pieces(kCl100kPattern, spaces + "x y").size(), 3u) << "more than PCRE2's match limit";
  EXPECT_THAT(pieces("[a-z]*|\\s", "ab \u00E92 cd"),
              ElementsAre("ab", " ", "\u00E9", "2", " ", "cd"));
}

TEST(SplitPattern, LosesNothingOfWhatIsNoUtf8) {
  for (const char* pattern : {kGpt2Pattern, kCl100kPattern, kO200kPattern}) {
    std::mt19937_64 dice(1);
    for (int i = 0; i < 200; ++i) {
      std::string text(dice() % 40, ' '), together;
      for (char& c : text) c = static_cast<char>(dice());
      for (const std::string& piece : pieces(pattern, text)) together += piece;
      EXPECT_EQ(together, text);
    }
  }
  EXPECT_THAT(test::error_of<ConfigError>([] { const SplitPattern broken("(a"); }),
              HasSubstr("no regular expression"));
}

const std::string kText =
    "the cat and the hat sat on the mat; the end.\nnaïve café, 12 and 123 — ünïcødé 你好 你好 "
    "the theory of themes\n\n  indented the\tthe <|end|>the other";

/// Pairs counted anew for each join, as the course's text says.
Vocabulary brute_force(const PieceCounts& counts, std::int64_t size) {
  Vocabulary out;
  for (int byte = 0; byte < 256; ++byte) out.tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<std::pair<std::vector<std::string>, std::int64_t>> words;
  for (const auto& [piece, count] : counts) {
    std::vector<std::string> word;
    for (const char byte : piece) word.emplace_back(1, byte);
    words.emplace_back(word, count);
  }
  std::map<std::string, std::int32_t> numbers;
  for (int byte = 0; byte < 256; ++byte) numbers[out.tokens[byte]] = byte;
  while (std::ssize(out.tokens) < size) {
    std::map<std::pair<std::string, std::string>, std::int64_t> pairs;
    for (const auto& [word, count] : words) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += count;
    }
    if (pairs.empty()) break;
    auto best = pairs.begin();
    for (auto each = pairs.begin(); each != pairs.end(); ++each) {
      if (each->second >= best->second) best = each;  // of equal ones the greater
    }
    const auto [left, right] = best->first;
    const auto token = static_cast<std::int32_t>(out.tokens.size());
    out.joins.push_back({numbers.at(left), numbers.at(right), token});
    out.tokens.push_back(left + right);
    numbers.emplace(left + right, token);
    for (auto& [word, count] : words) {
      std::vector<std::string> joined;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        joined.push_back(here ? left + right : word[i]);
        i += here ? 1 : 0;
      }
      word = joined;
    }
  }
  return out;
}

PieceCounts counts_of(const std::string& text) {
  PieceCounts counts;
  count_pieces({text}, SplitPattern(kGpt2Pattern), {"<|end|>"}, counts);
  return counts;
}

Vocabulary trained(std::int64_t size = 300) {
  return train_vocabulary(counts_of(kText), size, kGpt2Pattern, {"<|end|>"});
}

TEST(TrainTokenizer, JoinsWhatTheDefinitionJoins) {
  std::mt19937_64 dice(9);
  for (int round = 0; round < 12; ++round) {
    std::string text;
    const std::size_t letters = 2 + round % 4;
    for (int i = 0; i < 600; ++i) {
      text += dice() % 5 == 0 ? ' ' : static_cast<char>('a' + dice() % letters);
    }
    const PieceCounts counts = counts_of(text);
    const Vocabulary own = train_vocabulary(counts, 320, kGpt2Pattern, {});
    const Vocabulary right = brute_force(counts, 320);
    ASSERT_EQ(own.tokens, right.tokens) << text;
    for (std::size_t i = 0; i < own.joins.size(); ++i) {
      EXPECT_EQ(own.joins[i].left, right.joins[i].left);
      EXPECT_EQ(own.joins[i].right, right.joins[i].right);
    }
  }
}

TEST(TrainTokenizer, SpecialTokensAreNoTextAndComeLast) {
  const Vocabulary own = trained();
  EXPECT_EQ(own.tokens.size(), 300u);
  EXPECT_EQ(own.tokens.back(), "<|end|>");
  EXPECT_THAT(own.special, ElementsAre(299));
  EXPECT_FALSE(counts_of(kText).contains("<|"));
  PieceCounts apart;
  count_pieces({"the cat\n", "and the<|end|>", "the"}, SplitPattern(kGpt2Pattern), {"<|end|>"},
               apart);
  EXPECT_EQ(apart, counts_of("the cat\nand the<|end|>the"));
  PieceCounts longest_first;
  count_pieces({"<a><b>x"}, SplitPattern(kGpt2Pattern), {"<a>", "<a><b>"}, longest_first);
  EXPECT_EQ(longest_first, counts_of("x"));
  EXPECT_THAT(test::error_of<ConfigError>([] { trained(256); }), HasSubstr("too small"));
  EXPECT_EQ(train_vocabulary(counts_of("aa"), 1000, kGpt2Pattern, {}).tokens.size(), 257u)
      << "no pair is left";
}

/// Of one piece, by the definition.
std::vector<std::int32_t> encoded_slowly(const Vocabulary& vocabulary, const std::string& piece) {
  std::vector<std::int32_t> tokens;
  for (const char byte : piece) tokens.push_back(static_cast<unsigned char>(byte));
  for (const auto& [left, right, token] : vocabulary.joins) {
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] != left || tokens[i + 1] != right) continue;
      tokens[i] = token;
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  return tokens;
}

TEST(Tokenizer, JoinsTheFirstJoinsFirst) {
  const Vocabulary vocabulary = trained(340);
  const Tokenizer tokenizer(vocabulary, "test");
  std::mt19937_64 dice(4);
  for (const std::size_t length : {1, 2, 7, 40, 60, 300}) {  // short ones and long ones
    for (int i = 0; i < 40; ++i) {
      std::string word;
      while (word.size() < length) word += "theandcatomes"[dice() % 13];
      EXPECT_EQ(tokenizer.encode(word), encoded_slowly(vocabulary, word)) << word;
    }
  }
}

TEST(Tokenizer, DecodesToTheSameBytes) {
  const Tokenizer tokenizer(trained(), "test");
  std::mt19937_64 dice(2);
  for (int i = 0; i < 100; ++i) {
    std::string text = kText.substr(dice() % 40);
    text.insert(dice() % text.size(), 1, static_cast<char>(dice()));
    const auto tokens = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode({tokens.begin(), tokens.end()}), text);
  }
  EXPECT_EQ(tokenizer.decode({-1, 5000, 97}), "a");
  EXPECT_EQ(tokenizer.decode({0, 97, 299, 0}), std::string("\0a<|end|>\0", 10));
  EXPECT_EQ(tokenizer.decode({0, 97, 299, 0}, /*with_marks=*/false), std::string("\0a\0", 3));
}

TEST(Tokenizer, SpecialTokensStandForThemselvesTheLongestFirst) {
  Vocabulary vocabulary = trained();
  vocabulary.special.push_back(static_cast<std::int32_t>(vocabulary.tokens.size()));
  vocabulary.tokens.push_back("<|end|><|end|>");
  const Tokenizer tokenizer(vocabulary, "test");
  EXPECT_THAT(tokenizer.encode("a<|end|>b<|end|><|end|>"), ElementsAre(97, 299, 98, 300));
  std::vector<std::int32_t> plain;
  tokenizer.encode("<|end|>", plain, /*with_special=*/false);
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(tokenizer.special("<|end|>"), 299);
  EXPECT_THAT(test::error_of<ConfigError>([&] { tokenizer.special("<eos>"); }),
              HasSubstr("no such special token"));
}

TEST(Tokenizer, ACutChangesNoToken) {
  for (const char* pattern : {kGpt2Pattern, kCl100kPattern, kO200kPattern}) {
    Vocabulary vocabulary = trained();
    vocabulary.pattern = pattern;
    for (const auto& [left, right] : {std::pair{'\r', '\n'}, std::pair{'\n', '\n'}}) {
      vocabulary.joins.push_back(
          {left, right, static_cast<std::int32_t>(vocabulary.tokens.size())});
      vocabulary.tokens.push_back({left, right});
    }
    const Tokenizer tokenizer(vocabulary, "test");
    const std::string text =
        kText + "\n\nMore text\r\nand 1\n2 lines\n\n\n'x' \n y\nz\nmore\r\n\nb";
    const auto whole = tokenizer.encode(text);
    int cuts = 0;
    for (std::size_t limit = 1; limit < text.size(); ++limit) {
      const std::size_t at = tokenizer.cut(text, limit);
      if (at == 0) continue;
      ++cuts;
      auto tokens = tokenizer.encode(text.substr(0, at));
      tokenizer.encode(text.substr(at), tokens);
      EXPECT_EQ(tokens, whole) << at;
    }
    EXPECT_GT(cuts, 5);
  }
}

TEST(TextChunks, AreTheWholeFile) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < 40 << 20; ++i) text += "line " + std::to_string(i) + "\n";
  folder.write("text", text);
  const SplitPattern pattern(kGpt2Pattern);
  const auto cut = [&](std::string_view of, std::size_t limit) { return pattern.cut(of, limit); };
  const auto nowhere = [](std::string_view, std::size_t) { return std::size_t{0}; };
  for (const auto& [at, chunks, most] : {std::tuple<Cut, int, std::size_t>{cut, 3, 2},
                                         std::tuple<Cut, int, std::size_t>{nowhere, 1, 1}}) {
    std::string together;
    int count = 0;
    for_each_chunk(folder.path() / "text", 2, at, [&](const auto& texts) {
      EXPECT_EQ(texts.size(), most);
      for (const std::string_view part : texts) together += part;
      ++count;
    });
    EXPECT_EQ(count, chunks);
    EXPECT_TRUE(together == text);
  }
  folder.write("empty", "");
  for_each_chunk(folder.path() / "empty", 2, cut, [](const auto&) { FAIL(); });
  EXPECT_THAT(test::error_of<ConfigError>(
                  [&] { for_each_chunk(folder.path(), 2, cut, [](const auto&) {}); }),
              HasSubstr("cannot read the text"));
}

TEST(Tokenizer, AMillionOfOneLetterIsNoWorseThanOtherText) {
  const Tokenizer tokenizer(
      train_vocabulary(counts_of(std::string(64, 'a')), 262, kGpt2Pattern, {}), "test");
  const std::string text(1 << 20, 'a');
  const auto tokens = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode({tokens.begin(), tokens.end()}), text);
  EXPECT_EQ(tokens.size(), text.size() / 64);
}

TEST(TokenizerFile, IsReadAsItWasWritten) {
  const test::TemporaryFolder folder;
  const Vocabulary vocabulary = trained();
  folder.write("t.json", to_tokenizer_json(vocabulary));
  const Tokenizer read = read_tokenizer(folder.path() / "t.json");
  EXPECT_EQ(read.vocabulary().tokens, vocabulary.tokens);
  EXPECT_EQ(read.vocabulary().special, vocabulary.special);
  EXPECT_EQ(read.vocabulary().marks, vocabulary.marks);
  EXPECT_EQ(read.vocabulary().pattern, vocabulary.pattern);
  EXPECT_EQ(read.encode(kText), Tokenizer(vocabulary, "test").encode(kText));
}

class OtherTokenizers : public testing::Test {
 protected:
  Tokenizer read(const std::string& text) {
    folder_.write("t", text);
    return read_tokenizer(folder_.path() / "t");
  }
  std::string refusal(const std::string& text, const std::string& pattern = {}) {
    folder_.write("t", text);
    return test::error_of<ConfigError>([&] { read_tokenizer(folder_.path() / "t", pattern); });
  }
  std::string with(const std::string& from, const std::string& to) {
    return test::replaced(to_tokenizer_json(trained(260)), from, to);
  }
  test::TemporaryFolder folder_;
};

TEST_F(OtherTokenizers, AddTokensThatAreText) {
  const Tokenizer tokenizer = read(with("\"special\": true", "\"special\": false"));
  EXPECT_EQ(tokenizer.decode({259}, /*with_marks=*/false), "<|end|>");
}

TEST_F(OtherTokenizers, AreRefusedInWords) {
  EXPECT_THAT(refusal(""), HasSubstr("which they do not say"));
  EXPECT_THAT(refusal("{"), HasSubstr("not a tokenizer that is known here"));
  EXPECT_THAT(refusal("{}"), HasSubstr("not a tokenizer that is known here"));
  EXPECT_THAT(refusal(with("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}")),
              HasSubstr("got: a normalizer"));
  EXPECT_THAT(refusal(with("\"type\": \"BPE\"", "\"type\": \"Unigram\"")),
              HasSubstr("a model that is no BPE"));
  EXPECT_THAT(refusal(with("\"Isolated\"", "\"Removed\"")), HasSubstr("not Isolated"));
  EXPECT_THAT(refusal(with("\"unk_token\": null", "\"unk_token\": \"a\"")),
              HasSubstr("model.unk_token"));
  for (const std::string key : {"single_word", "lstrip", "rstrip"}) {
    EXPECT_THAT(refusal(with("\"" + key + "\": false", "\"" + key + "\": true")),
                HasSubstr("added_tokens with " + key));
  }
  EXPECT_THAT(refusal(with("\"a\": 97", "\"a\": 98")), HasSubstr("token 98 twice"));
  EXPECT_THAT(refusal(with("\"a\": 97,", "")), HasSubstr("no token"));
  EXPECT_THAT(refusal("IQ== 0\n", "gpt2"), HasSubstr("no token of byte 0"));
  for (const char* text : {"IQ==\n", " 256\n"}) {  // a token whose number is gone, and the reverse
    EXPECT_THAT(refusal(text, "gpt2"), HasSubstr("a line without a number")) << text;
  }
  for (const char* text : {"I?== 1\n", "IQ 1\n", "IQ=x 1\n"}) {
    EXPECT_THAT(refusal(text, "gpt2"), HasSubstr("not base64")) << text;
  }
  EXPECT_THAT(refusal("IQ== 99999999999\n", "gpt2"), HasSubstr("token number"));
}

}  // namespace
}  // namespace ddprun::tokenizer_test
