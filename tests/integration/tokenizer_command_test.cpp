// ddprun tokenize and tokenizer train as a user meets them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#include "support/ddprun_command.h"

namespace ddprun::test::tokenizer_command_test {
namespace {

std::string text() {
  std::string out;
  for (int i = 0; i < 4000; ++i) out += "line " + std::to_string(i * i) + " of the text\n";
  return out;
}

TEST(TokenizerCommand, AVocabularyATokenFileAndARun) {
  const TemporaryFolder folder("text", text());
  const CommandResult trained = must_run(
      folder,
      {"tokenizer", "train", "--size", "400", "--special", "<|end|>", "--out", "v.json", "text"});
  EXPECT_THAT(trained.out, HasSubstr("v.json: 400 tokens, of "));
  const CommandResult encoded = must_run(folder, {"tokenize", "--vocab", "v.json", "--end",
                                                  "<|end|>", "--out", "t.bin", "text", "text"});
  EXPECT_THAT(encoded.out, AllOf(HasSubstr("t.bin: "),
                                 HasSubstr("document_end: 399}\nmodel: {vocab_size: 400}")));
  const std::string bytes = read_file(folder.path() / "t.bin");
  std::vector<std::uint16_t> tokens(bytes.size() / 2);
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 399), 2) << "one behind each input";
  EXPECT_EQ(tokens.back(), 399);
}

TEST(TokenizerCommand, ARunOfItsTokensReadsAndWritesText) {
  const TemporaryFolder folder("text", text());
  must_run(folder, {"tokenizer", "train", "--size", "400", "--out", "v.json", "text"});
  must_run(folder, {"tokenize", "--vocab", "v.json", "--out", "t.bin", "text"});
  folder.write("e.yaml", tiny_experiment());
  const std::vector<std::string> sets = {
      "--set", "data={source: tokens, path: t.bin, tokenizer: v.json, order: sequential}",
      "--set", "model.vocab_size=400",
      "--set", "train.eval={every: 4, batches: 2, path: t.bin}",
      "--set", "train.sample={every: 4, prompt: line, tokens: 12}",
      "--set", "train.checkpoint={every: 4, path: saved}"};
  std::vector<std::string> words = {"e.yaml"};
  words.insert(words.end(), sets.begin(), sets.end());
  must_run(folder, words);
  const auto row = result_of(folder, "e")["rows"][0];
  const auto& last = row["ranks"][0]["samples"];
  const double loss = last["validation_loss"].back(), bits = last["bits_per_byte"].back();
  const double bytes_a_token = loss / std::log(2.0) / bits;
  EXPECT_GT(bytes_a_token, 1.5) << "tokens are words and digits";
  EXPECT_LT(bytes_a_token, 10);
  const std::string written = row["ranks"][0]["texts"].back()["text"];
  EXPECT_TRUE(written.starts_with("line"));
  const CommandResult sample =
      run_ddprun(folder, {"sample", "saved", "--prompt", "line", "--tokens", "12", "--seed",
                          std::to_string(0x6576616c756174)});
  EXPECT_EQ(sample.out, written + "\n") << sample.err;
  words.insert(words.begin(), "data");
  EXPECT_THAT(run_ddprun(folder, words).out,
              HasSubstr("\"line 0 of the text\\nline 1 of the text"));
  const CommandResult small = run_ddprun(
      folder,
      {"validate", "e.yaml", "--set", "data={source: tokens, path: t.bin, tokenizer: v.json}"});
  EXPECT_THAT(small.err + small.out, HasSubstr("the tokenizer has more tokens than the model"));
}

TEST(TokenizerCommand, WritesToStdoutAndSaysTheRestOnStderr) {
  const TemporaryFolder folder("text", text());
  const Words train = {"tokenizer", "train", "--size", "400", "text", "--out"};
  const Words encode = {"tokenize", "--vocab", "v.json", "text", "--out"};
  for (const auto& [words, file, said] :
       {std::tuple(train, "v.json", "400 tokens, of "), {encode, "t.bin", "path: FILE, "}}) {
    const auto to = [&](const std::string& out) {
      Words all = words;
      all.push_back(out);
      return must_run(folder, all);
    };
    to(file);
    const CommandResult printed = to("-");
    EXPECT_TRUE(printed.out == folder.read(file)) << file;
    EXPECT_THAT(printed.err, HasSubstr(said));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "-"));
  }
}

TEST(TokenizerCommand, SaysNothingOfSuccessWhereStdoutTookNotAll) {
  const TemporaryFolder folder("text", text());
  must_run(folder, {"tokenizer", "train", "--size", "400", "--out", "v.json", "text"});
  for (const Words& words : {Words{"tokenize", "--vocab", "v.json", "--out", "-", "text"},
                             {"tokenizer", "train", "--size", "400", "--out", "-", "text"}}) {
    for (const auto& [to, reason] :
         {std::pair(">/dev/full", "No space left on device"), {">&-", "Bad file descriptor"}}) {
      const std::string said =
          must_end(1, folder, words, by_shell(std::string(R"(exec "$0" "$@" )") + to)).err;
      EXPECT_THAT(said, StartsWith("error: cannot write a file\n  where: stdout\n  got: " +
                                   std::string(reason) + "\n"));
      EXPECT_THAT(said, Not(HasSubstr(" tokens"))) << "words of success";
    }
  }
}

TEST(TokenizerCommand, ItsSectionIsYamlWhateverTheNames) {
  const TemporaryFolder folder("text", text());
  must_run(folder, {"tokenizer", "train", "--size", "400", "--out", "true", "text"});
  const std::string said =
      must_run(folder, {"tokenize", "--vocab", "true", "--out", "a, b #1.bin", "text"}).out;
  const std::size_t data = said.find("data: "), model = said.find("model: ");
  folder.write("e.yaml",
               "strategy: flat\nprecision: fp32\nattention: sdpa\n"
               "train: {batch_per_rank: 1}\n" +
                   said.substr(data));
  ASSERT_LT(data, model);
  must_run(folder, {"validate", "e.yaml"});
}

TEST(TokenizerCommand, WhatIsWrongIsSaidAndNothingIsWritten) {
  const TemporaryFolder folder("text", text());
  const auto refused = [&](const std::vector<std::string>& words) {
    const CommandResult result = run_ddprun(folder, words);
    EXPECT_NE(result.status, 0);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
    return result.err;
  };
  EXPECT_THAT(refused({"tokenize", "--vocab", "text", "--out", "out", "text"}),
              HasSubstr("not a tokenizer that is known here"));
  must_run(folder, {"tokenizer", "train", "--size", "300", "--out", "v", "text"});
  EXPECT_THAT(refused({"tokenize", "--vocab", "v", "--end", "<eos>", "--out", "out", "text"}),
              HasSubstr("there is no such special token"));
  EXPECT_THAT(refused({"tokenize", "--vocab", "v", "--out", "out", "text", "absent"}),
              HasSubstr("cannot read the text"));
  EXPECT_THAT(refused({"tokenizer", "train", "--size", "9", "--out", "out", "text"}),
              HasSubstr("the vocabulary is too small"));
  for (const char* special : {"", "twice"}) {
    EXPECT_THAT(refused({"tokenizer", "train", "--size", "300", "--out", "out", "text", "--special",
                         special, "--special", special}),
                HasSubstr("a special token needs a text of its own"));
  }
  EXPECT_THAT(refused({"tokenizer", "learn", "--size", "300", "--out", "out", "text"}),
              HasSubstr("train"));
  EXPECT_THAT(refused({"tokenize", "--vocab", "v", "--out", "no/out", "text"}),
              HasSubstr("cannot write a file"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
}

TEST(TokenizerCommand, NothingIsLearnedFromASpecialTokenThatGoesOverALine) {
  std::string turns;
  for (int i = 0; i < 1001; ++i) turns += "aa.\nHuman";
  const TemporaryFolder folder("text", turns);
  must_run(folder,
           {"tokenizer", "train", "--size", "300", "--special", ".\nHuman", "--out", "v", "text"});
  EXPECT_THAT(folder.read("v"), AllOf(HasSubstr("\"aa\""), Not(HasSubstr("\"um"))));
}

TEST(TokenizerCommand, WhatIsReadIsNotWrittenOver) {
  const TemporaryFolder folder("text", text());
  must_run(folder, {"tokenizer", "train", "--size", "300", "--out", "v", "text"});
  const std::string vocabulary = folder.read("v");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"tokenizer", "train", "--size", "300", "--out", "./text", "text"},
        {"tokenize", "--vocab", "v", "--out", "text", "v", "text"},
        {"tokenize", "--vocab", "v", "--out", "v", "text"}}) {
    EXPECT_THAT(refusal_of(folder, words), HasSubstr("--out names a file that is read"));
  }
  EXPECT_EQ(folder.read("text"), text());
  EXPECT_EQ(folder.read("v"), vocabulary);
}

}  // namespace
}  // namespace ddprun::test::tokenizer_command_test
