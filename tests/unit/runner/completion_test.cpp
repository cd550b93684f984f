// The words of completion, and that a shell reads them as they are.
#include "runner/command_line/completion.h"

#include <algorithm>

#include "support/matchers.h"
#include "support/plugin_registry.h"

namespace ddprun::test {
namespace {

using testing::Field;

auto is_word(const std::string& word) { return Field(&CompletedWord::word, word); }

TEST(CompletionWords, AreThoseOfSectionsAndPlugins) {
  const CompletionWords words = declared_words(registry());
  EXPECT_THAT(words.names, AllOf(Contains(is_word("train")), Contains(is_word("bucketed")),
                                 Not(Contains(is_word("top level")))));
  EXPECT_THAT(words.overrides, AllOf(Contains(is_word("train.steps=")), Contains(is_word("name=")),
                                     Contains(is_word("strategy.bucket_mb="))));
}

TEST(CompletionWords, ValuesThatHaveNamesAreWordsToo) {
  const CompletionWords words = declared_words(registry());
  EXPECT_THAT(words.overrides,
              AllOf(Contains(is_word("strategy=flat")), Contains(is_word("world.backend=gloo")),
                    Contains(is_word("world.pin=true")), Not(Contains(is_word("train.steps=1")))));
}

TEST(CompletionWords, AreThereOnce) {
  std::vector<std::string> words;
  for (const CompletedWord& each : declared_words(registry()).overrides) {
    words.push_back(each.word);
  }
  std::ranges::sort(words);
  EXPECT_EQ(std::ranges::adjacent_find(words), words.end());
}

TEST(CompletionScript, QuotesWhatAShellWouldRead) {
  CompletionWords words;
  words.commands = {{{"run", "it's `run` \\ $HOME"}, {{"", "files", kFileValue}}}};
  EXPECT_THAT(completion_script(Shell::bash, words), HasSubstr("'run:it'\\''s `run` \\ $HOME'"));
  EXPECT_THAT(completion_script(Shell::zsh, words), HasSubstr("'run:it'\\''s `run` \\ $HOME'"));
  EXPECT_THAT(completion_script(Shell::fish, words), HasSubstr("'it\\'s `run` \\\\ $HOME'"));
}

}  // namespace
}  // namespace ddprun::test
