// `ddprun data`: which tokens of which file each rank reads, and what it refuses.
#include <algorithm>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

/// Two ranks, two micro-batches each of one sample of 17 tokens.
class DataCommand : public testing::Test {
 protected:
  DataCommand() { folder_.write("e.yaml", tiny_experiment()); }

  CommandResult data(const std::string& section, const Words& more = {}, int status = 0) {
    auto words = with_sets({"data", "e.yaml"}, {"train.accumulate=2", "data=" + section});
    words.insert(words.end(), more.begin(), more.end());
    return must_end(status, folder_, words);
  }
  /// The lines of the output, with one space where there are several.
  static std::vector<std::string> lines(const CommandResult& result) {
    std::vector<std::string> out;
    for (const std::string& line : lines_of(result.out)) {
      std::string& text = out.emplace_back(trimmed(line));
      const auto spaces = [](char a, char b) { return a == ' ' && b == ' '; };
      text.erase(std::unique(text.begin(), text.end(), spaces), text.end());
    }
    return out;
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  /// a.txt: 20 lines of 9 bytes each.
  std::string write_lines() {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "line " + std::to_string(100 + i) + "\n";
    folder_.write("a.txt", text);
    return at("a.txt");
  }

  TemporaryFolder folder_;
};

TEST_F(DataCommand, SaysWhereTextIsReadAndHowItBegins) {
  const std::string a = write_lines();
  EXPECT_THAT(lines(data("{source: text, path: a.txt, order: sequential}", {"--step", "1"})),
              ElementsAre("e: step 1", "rank micro-batch sample tokens begins",
                          "0 0 0 " + a + " 64..80 \"ine 107\\nline 108\\n\"",
                          "0 1 1 " + a + " 80..96 \"\\nline 109\\nline 11\"",
                          "1 0 2 " + a + " 96..112 \"10\\nline 111\\nline \"",
                          "1 1 3 " + a + " 112..128 \" 112\\nline 113\\nlin\""));
}

TEST_F(DataCommand, CountsDocumentsAndTargets) {
  const std::string a = write_lines();
  EXPECT_THAT(lines(data("{source: text, path: a.txt, order: sequential, document_end: 10}",
                         {"--step", "1"})),
              ElementsAre("e: step 1", "rank micro-batch sample documents targets tokens begins",
                          "0 0 0 2 15 " + a + " 64..80 \"ine 107\\nline 108\\n\"",
                          "0 1 1 3 14 " + a + " 80..96 \"\\nline 109\\nline 11\"",
                          "1 0 2 3 14 " + a + " 96..112 \"10\\nline 111\\nline \"",
                          "1 1 3 3 14 " + a + " 112..128 \" 112\\nline 113\\nlin\""));
}

TEST_F(DataCommand, SaysWhichTokenFilesASampleTakes) {
  const auto tokens = [&](const std::string& name, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += {static_cast<char>(i), '\0'};
    folder_.write(name, bytes);
  };
  tokens("1.bin", 40);
  tokens("2.bin", 60);
  const std::string section = "{source: tokens, path: [1.bin, 2.bin], order: sequential}";
  EXPECT_THAT(lines(data(section)),
              ElementsAre("e: step 0", "rank micro-batch sample tokens",
                          "0 0 0 " + at("1.bin") + " 0..16", "0 1 1 " + at("1.bin") + " 16..32",
                          "1 0 2 " + at("1.bin") + " 32..39, " + at("2.bin") + " 0..8",
                          "1 1 3 " + at("2.bin") + " 8..24"));
  // 6 windows: the second epoch begins in this step.
  EXPECT_THAT(lines(data(section, {"--step", "1", "--set", "world.size=1", "--set",
                                   "train.batch_per_rank=4", "--set", "train.accumulate=1"})),
              ElementsAre("e: step 1", "rank micro-batch sample tokens",
                          "0 0 0 " + at("2.bin") + " 24..40", "0 0 1 " + at("2.bin") + " 40..56",
                          "0 0 2 " + at("1.bin") + " 0..16", "0 0 3 " + at("1.bin") + " 16..32"));
}

TEST_F(DataCommand, ShowsFortyCharactersEscaped) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "\xC3\xA9";
  folder_.write("a.txt", text);
  const CommandResult shown =
      data("{source: text, path: a.txt, order: sequential}", {"--set", "model.context_length=128"});
  std::string expected;
  for (int i = 0; i < 40; ++i) expected += "\xC3\xA9";
  EXPECT_THAT(shown.out, HasSubstr(" \"" + expected + "\"\n"));
}

TEST_F(DataCommand, EachRowOfASweepHasItsOwn) {
  folder_.write("a.txt", std::string(500, 'x'));
  folder_.write("e.yaml", tiny_experiment("sweep: {data.order: [random, shuffled]}\n"));
  const CommandResult shown = must_run(
      folder_, {"data", "e.yaml", "--set", "data.source=text", "--set", "data.path=a.txt"});
  EXPECT_THAT(shown.out, HasSubstr("random: step 0\n"));
  EXPECT_THAT(shown.out, HasSubstr("shuffled: step 0\n"));
}

TEST_F(DataCommand, RandomTokensHaveNoPlace) {
  EXPECT_THAT(lines(data("{source: random}")), SizeIs(6));
  EXPECT_THAT(data("{source: random}").out, HasSubstr("random tokens\n"));
}

TEST_F(DataCommand, RefusesWhatIsNotRead) {
  EXPECT_THAT(data("{source: random}", {"--step", "4"}, 2).err,  // 1 of warm-up and 3
              HasSubstr("the run has no such step"));
  data("{source: random}", {"--step", "-1"}, 2);
  EXPECT_THAT(data("{source: random}", {"--step", "010"}, 2).err, HasSubstr("got: 10\n"));
  EXPECT_THAT(data("{source: random}", {"--step", "99999999999999999999"}, 2).err,
              HasSubstr("99999999999999999999 is no whole number"));
  data("{source: random}", {"--step", "3"});
  EXPECT_THAT(data("{source: random, order: shuffled}", {}, 2).err,
              HasSubstr("data.order has no effect with data.source random"));
  folder_.write("e.yaml",
                "experiment: collectives\nworld: {size: 2, backend: gloo}\n"
                "collectives: {bytes: 1000}\n");
  const CommandResult other = must_end(2, folder_, {"data", "e.yaml"});
  EXPECT_THAT(other.err, HasSubstr("this kind of experiment reads no data"));
  EXPECT_THAT(other.out, IsEmpty());
}

}  // namespace
}  // namespace ddprun::test
