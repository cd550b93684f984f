// YAML trees: positions, duplicates, aliases, and the text of each error.
#include "ddprun/config/config_node.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/matchers.h"

namespace ddprun {
namespace {

using test::message_of;

std::string parse_error(const std::string& text) {
  return test::error_of<ConfigError>([&] { parse_yaml(text, "a.yaml"); });
}

TEST(ConfigNode, AliasesOfALongTextAreNoMoreThanMemoryCanHold) {
  std::string text = "a: &text " + std::string(500'000, 'x') + "\nb: [*text";
  for (int i = 0; i < 1'000; ++i) text += ", *text";
  EXPECT_THAT(parse_error(text + "]\n"),
              HasSubstr("the texts of the file expand to more than 16 MB"));
}

TEST(ConfigNode, EveryValueAndKeyKnowsItsPlace) {
  const ConfigNode root = parse_yaml("train:\n  steps: 10\n  betas: [0.9, 0.95]\n", "dir/a.yaml");
  const ConfigNode& steps = *root.find("train")->find("steps");
  EXPECT_EQ(steps.origin, "dir/a.yaml:2:10");
  EXPECT_EQ(steps.key_origin, "dir/a.yaml:2:3");
  EXPECT_EQ(root.find("train")->find("betas")->list[1].origin, "dir/a.yaml:3:16");
  EXPECT_EQ(root.find("train")->key_origin, "dir/a.yaml:1:1");
  EXPECT_EQ(root.find("steps"), nullptr);
  EXPECT_EQ(steps.find("steps"), nullptr);
}

TEST(ConfigNode, AMissingValueIsPlacedAtItsKey) {
  const ConfigNode root = parse_yaml("a: 1\nmodel:\n\n\ntrain: {}\n", "a.yaml");
  EXPECT_EQ(root.find("model")->kind, ConfigNode::Kind::null);
  EXPECT_EQ(root.find("model")->origin, "a.yaml:2:1");
}

TEST(ConfigNode, QuotedScalarsAreMarked) {
  const ConfigNode root = parse_yaml("a: 5\nb: \"5\"\nc: '5'\nd: !!str 5\ne: |\n  5\n", "a.yaml");
  EXPECT_FALSE(root.find("a")->quoted);
  for (const char* key : {"b", "c", "d", "e"}) EXPECT_TRUE(root.find(key)->quoted) << key;
}

TEST(ConfigNode, DuplicateKeysAreRefused) {
  EXPECT_EQ(parse_error("train:\n  steps: 1\n  seed: 2\n  steps: 3\n"),
            "duplicate key 'steps'\n"
            "  where: a.yaml:4:3\n"
            "  got: the key a second time\n"
            "  expected: each key once\n"
            "  hint: the first one is at a.yaml:2:3");
}

// Each of them took seconds when keys were looked for one after another.
TEST(ConfigNode, ManyKeysTakeNoTime) {
  std::string keys = "a: &a {";
  for (int i = 0; i < 20'000; ++i) keys += "k" + std::to_string(i) + ": 1, ";
  keys += "z: 1}\nb: {<<: *a, c: 1}\n";
  const std::clock_t begin = std::clock();  // of the CPU, whatever else runs
  EXPECT_EQ(parse_yaml(keys, "a.yaml").find("b")->map.size(), 20'002U);
  EXPECT_LT(std::clock() - begin, 1.5 * CLOCKS_PER_SEC);
}

TEST(ConfigNode, CopiesOfAnchoredValuesCount) {
  std::string text = "a: ";
  for (int i = 0; i < 300; ++i) text += "&a" + std::to_string(i) + " [";
  for (int i = 0; i < 1000; ++i) text += "1, ";
  for (int i = 0; i < 300; ++i) text += "]";
  EXPECT_THAT(parse_error(text), HasSubstr("expands to more than 100000 values"));
}

TEST(ConfigNode, SeveralDocumentsAreRefused) {
  EXPECT_EQ(parse_error("a: 1\n---\nb: 2\n"),
            message_of("more than one YAML document", "a.yaml:2:1", "a second document after '---'",
                       "one document", "write one file per experiment, or use sweep:"));
}

TEST(ConfigNode, SyntaxErrorsAreOurs) {
  EXPECT_EQ(parse_error("a: [1, 2\nb: 3\n"),
            message_of("YAML syntax error: end of sequence flow not found", "a.yaml:2:2",
                       "text that is no YAML", "YAML 1.2",
                       "look here and at the line above: indentation, an open bracket or quote"));
  // yaml-cpp's words, which later versions extend by the name.
  EXPECT_THAT(parse_error("a: *nowhere\n"),
              AllOf(StartsWith("YAML syntax error: the referenced anchor is not defined"),
                    HasSubstr("\n  where: a.yaml:1:4\n")));
  EXPECT_THAT(parse_error("a: " + std::string(9000, '[')),
              StartsWith("YAML syntax error: too many levels\n"));
}

TEST(ConfigNode, AQuoteThatDoesNotEndIsAnError) {
  for (const char* text : {"a: \"b\n", "a: 'b\n", "\"", "a:\n  b: \"c\n\n"}) {
    EXPECT_THAT(parse_error(text), StartsWith("YAML syntax error: illegal document indicator"))
        << text;
  }
  EXPECT_EQ(parse_yaml("a: |\n  b\n", "a.yaml").find("a")->scalar, "b\n");
  EXPECT_EQ(parse_yaml("a: b", "a.yaml").find("a")->scalar, "b");
}

TEST(ConfigNode, TextHasNoZeroBytes) {
  EXPECT_EQ(parse_error(R"(a: "b\0c")"),
            message_of("a text has a zero byte", "a.yaml:1:4", "b\\x00c",
                       "text that can name files", "remove \\0 or \\x00"));
}

TEST(ConfigNode, KeysMustBeText) {
  EXPECT_EQ(parse_error("a:\n  [1, 2]: 3\n"),
            message_of("a key must be text", "a.yaml:2:3", "a list or mapping", "key: value",
                       "quote it, or remove what stands before the colon"));
  EXPECT_EQ(parse_error("{~: 3}\n"),
            message_of("a key must be text", "a.yaml:1:2", "nothing", "key: value",
                       "quote it, or remove what stands before the colon"));
}

TEST(ConfigNode, TagsAreRefused) {
  EXPECT_EQ(parse_error("a: !!int 5\n"),
            message_of("YAML tags are not supported", "a.yaml:1:4", "tag:yaml.org,2002:int",
                       "plain values", "remove the tag"));
}

TEST(ConfigNode, AliasesAndMergeKeysAreResolved) {
  const ConfigNode root = parse_yaml(
      "base: &base {steps: 1, seed: 2}\n"
      "other: &other {seed: 5, extra: 6}\n"
      "alias: *base\n"
      "merged:\n"
      "  <<: *base\n"
      "  steps: 9\n"
      "both:\n"
      "  <<: [*base, *other]\n",
      "a.yaml");
  EXPECT_EQ(compact(*root.find("alias")), "{steps: 1, seed: 2}");
  EXPECT_EQ(compact(*root.find("merged")), "{steps: 9, seed: 2}");
  EXPECT_EQ(compact(*root.find("both")), "{steps: 1, seed: 2, extra: 6}");
  EXPECT_EQ(root.find("merged")->find("seed")->origin, "a.yaml:1:30");
  EXPECT_EQ(root.find("alias")->key_origin, "a.yaml:3:1");
}

TEST(ConfigNode, BadMergesAndAliasesAreRefused) {
  EXPECT_EQ(parse_error("a:\n  <<: 5\n"),
            message_of("'<<' must be given a mapping or a list of mappings", "a.yaml:2:3", "5",
                       "<<: *anchor", "put the anchor on a mapping"));
  EXPECT_EQ(parse_error("a: &a [*a]\n"),
            message_of("an alias refers to a value that contains it", "a.yaml:1:8",
                       "an alias inside its own anchor", "an alias of a value that is complete",
                       "move the anchor to the part that is meant"));
}

TEST(ConfigNode, MultiplyingAliasesAreStopped) {
  std::ostringstream text;
  text << "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    text << "a" << i << ": &a" << i << " [*a" << i - 1;
    for (int k = 1; k < 10; ++k) text << ", *a" << i - 1;
    text << "]\n";
  }
  EXPECT_THAT(parse_error(text.str()), StartsWith("the file expands to more than 100000 values\n"
                                                  "  where: a.yaml:5:"));
}

TEST(ConfigNode, UnreadableAndEmptyFilesAreRefused) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "config_node_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "empty.yaml") << "# nothing here\n";
  const auto error = [&](const std::filesystem::path& file) {
    return test::error_of<ConfigError>([&] { read_yaml(file); });
  };
  EXPECT_EQ(
      error("/no/such.yaml"),
      message_of("cannot read the YAML file", "/no/such.yaml", "No such file or directory",
                 "a file that can be read", "a folder of files is named on the command line"));
  EXPECT_EQ(error(folder), "cannot read the YAML file\n  where: " + folder.string() +
                               "\n  got: a folder\n  expected: a file that can be read\n"
                               "  hint: a folder of files is named on the command line");
  std::filesystem::resize_file(folder / "empty.yaml", 16'000'001);
  EXPECT_EQ(error(folder / "empty.yaml"),
            message_of("cannot read the YAML file", (folder / "empty.yaml").string(),
                       "16,000,001 bytes: no experiment has 16 MB", "a file that can be read",
                       "a folder of files is named on the command line"));
  std::filesystem::resize_file(folder / "empty.yaml", 15);
  EXPECT_EQ(error(folder / "empty.yaml"),
            "the YAML file is empty\n  where: " + (folder / "empty.yaml").string() +
                "\n  got: comments at most\n  expected: key: value lines\n"
                "  hint: configs/ has examples");
}

TEST(ConfigNode, YamlTextReadsBackAsTheSameTree) {
  const std::string text =
      "name: run\n"
      "text: \"5\"\n"
      "nothing: ~\n"
      "odd: \"a: b # c\\n\\ttab \\\"quote\\\"\"\n"
      "unicode: Größe\n"
      "negative: -1e-8\n"
      "empty_list: []\n"
      "empty_map: {}\n"
      "list: [0.9, 0.95]\n"
      "nested:\n"
      "  - {name: none, on: true}\n"
      "  - [1, [2, 3]]\n"
      "  - naive\n";
  const std::string once = to_yaml(parse_yaml(text, "a"));
  EXPECT_EQ(once, to_yaml(parse_yaml(once, "b")));
  EXPECT_EQ(compact(parse_yaml(text, "a")), compact(parse_yaml(once, "b")));
  EXPECT_THAT(once, HasSubstr("text: \"5\"\n"));
  EXPECT_THAT(once, HasSubstr("list: [0.9, 0.95]\n"));
  EXPECT_THAT(once, HasSubstr("negative: -1e-8\n"));
}

}  // namespace
}  // namespace ddprun
