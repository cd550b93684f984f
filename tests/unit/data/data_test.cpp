// Data sources: what a sample holds, independence of the rank count, and every file that is
// refused.
#include "ddprun/data/data.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "ddprun/data/text_codec.h"
#include "ddprun/data/token_sequence.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class DataTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    scratch_.write(name, bytes);
    return (folder_ / name).string();
  }
  template <class Number>
  std::string write_numbers(const std::string& name, const std::vector<Number>& numbers) const {
    return write(name,
                 {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)});
  }

  const test::TemporaryFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

DataConfig text(std::vector<std::string> path) {
  return {.source = DataKind::text, .path = std::move(path)};
}
DataConfig tokens(std::vector<std::string> path, TokenType type = TokenType::uint16) {
  return {.source = DataKind::tokens, .path = std::move(path), .token_type = type};
}

std::vector<std::int64_t> row(const at::Tensor& tensor, std::int64_t index) {
  const at::Tensor values = tensor[index].contiguous();
  return {values.const_data_ptr<std::int64_t>(),
          values.const_data_ptr<std::int64_t>() + values.numel()};
}

// The error of opening, or an empty one with a test failure.
ErrorText refusal(const DataConfig& config, std::int64_t vocab_size = 256,
                  std::int64_t context_length = 4) {
  return test::error_text_of<ConfigError>(
      [&] { open_data(config, vocab_size, context_length, 0); });
}

TEST_F(DataTest, SamplesArePiecesOfTheTextShiftedByOne) {
  std::string bytes;
  for (int i = 0; i < 128; ++i) bytes += static_cast<char>(i);
  const auto data = open_data(text({write("a.txt", bytes)}), 256, 5, 1);
  EXPECT_EQ(data->tokens(), 128);
  const Batch batch = data->batch(0, 0, 200);
  EXPECT_EQ(batch.ids.sizes(), (std::vector<std::int64_t>{200, 5}));
  EXPECT_EQ(batch.ids.scalar_type(), at::kLong);
  std::set<std::int64_t> starts;
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t start = row(batch.ids, i)[0];
    starts.insert(start);
    EXPECT_EQ(row(batch.ids, i),
              (std::vector<std::int64_t>{start, start + 1, start + 2, start + 3, start + 4}));
  }
  EXPECT_TRUE(at::equal(batch.targets, batch.ids + 1));
  EXPECT_GT(starts.size(), 80U);  // 200 draws of 123 leave 24 out on average
  EXPECT_GE(*starts.begin(), 0);
  EXPECT_LE(*starts.rbegin(), 122);
}

TEST_F(DataTest, EveryStartIsReachable) {
  const auto data = open_data(text({write("a.txt", "abcdef")}), 256, 4, 0);  // starts 0 and 1
  const Batch batch = data->batch(0, 0, 64);
  const auto first = batch.ids.select(1, 0);
  EXPECT_EQ(first.min().item<int>(), 'a');
  EXPECT_EQ(first.max().item<int>(), 'b');
}

TEST_F(DataTest, RandomTokensCoverTheVocabulary) {
  const auto data = open_data({.source = DataKind::random}, 10, 100, 0);
  EXPECT_EQ(data->tokens(), 0);
  const Batch batch = data->batch(0, 0, 100);
  for (std::int64_t token = 0; token < 10; ++token) {
    EXPECT_NEAR((batch.ids == token).sum().item<double>(), 1000, 150)
        << token;  // 5 standard deviations
  }
  EXPECT_LT(batch.ids.max().item<int>(), 10);
  EXPECT_NEAR((batch.targets.select(1, 99) == 0).sum().item<double>(), 10, 15);
  EXPECT_TRUE(at::equal(batch.ids.narrow(1, 1, 99), batch.targets.narrow(1, 0, 99)));
}

TEST_F(DataTest, FolderIsReadInSortedOrderWithoutLinksAndBinaries) {
  write("f/b.txt", "second ");
  write("f/a/z.txt", "first ");
  write("f/c.txt", "third \xC3\xA9");
  write("f/d.dat", std::string("nul\0nul", 7));
  write("f/e.dat", "latin \xE9");
  fs::create_symlink(folder_ / "f/b.txt", folder_ / "f/link.txt");
  fs::create_directory_symlink(folder_ / "f/a", folder_ / "f/again");
  const TextCorpus corpus({(folder_ / "f").string()});
  std::vector<std::int64_t> bytes(corpus.size());
  corpus.copy(0, corpus.size(), bytes.data());
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "first second third \xC3\xA9");
  const auto data = open_data(text({(folder_ / "f").string()}), 256, 4, 0);
  EXPECT_THAT(data->description(),
              HasSubstr("21 bytes of 3 files under " + (folder_ / "f").string()));
  EXPECT_THAT(data->description(), HasSubstr("2 symbolic links, 2 files that are not UTF-8 text"));
}

TEST_F(DataTest, DescriptionGroupsThousands) {
  const auto data = open_data(text({write("a.txt", std::string(1234567, 'x'))}), 256, 4, 0);
  EXPECT_THAT(data->description(), HasSubstr("1,234,567 bytes of 1 file under "));
}

TEST_F(DataTest, Utf8IsCheckedToTheByte) {
  EXPECT_EQ(valid_utf8_prefix("ascii, \xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x98\x80"), 20U);
  EXPECT_EQ(valid_utf8_prefix("ab\xE9 latin"), 2U);       // a lead byte without its trail
  EXPECT_EQ(valid_utf8_prefix("ab\x80"), 2U);             // a trail byte alone
  EXPECT_EQ(valid_utf8_prefix("abc\xC0\xAF"), 3U);        // overlong
  EXPECT_EQ(valid_utf8_prefix("a\xED\xA0\x80"), 1U);      // a surrogate
  EXPECT_EQ(valid_utf8_prefix("a\xF4\x90\x80\x80"), 1U);  // above U+10FFFF
  EXPECT_EQ(valid_utf8_prefix("abcd\xE2\x82"), 4U);       // cut short
}

TEST_F(DataTest, TextThatIsRefused) {
  const std::string latin = write("latin.txt", "caf\xE9 au lait");
  EXPECT_THAT(refusal(text({latin})).got, HasSubstr("byte offset 3"));
  EXPECT_EQ(refusal(text({latin})).where, latin);
  EXPECT_THAT(refusal(text({folder_ / "absent.txt"})).got, HasSubstr("no such file"));
  EXPECT_EQ(refusal(text({write("empty.txt", "")})).got, "an empty file");
  fs::create_directory(folder_ / "nothing");
  EXPECT_EQ(refusal(text({folder_ / "nothing"})).got, "no text in it");
  EXPECT_THAT(refusal(text({write("short.txt", "abcd")})).expected, HasSubstr("5"));
}

TEST_F(DataTest, TokenFilesAreOneSequence) {
  const std::string first = write_numbers<std::uint32_t>("1.bin", {100000, 100001, 100002});
  const std::string second = write_numbers<std::uint32_t>("2.bin", {100003});
  const std::string third = write_numbers<std::uint32_t>("3.bin", {100004, 100005});
  const auto data = open_data(tokens({first, second, third}, TokenType::uint32), 200000, 4, 0);
  EXPECT_EQ(data->tokens(), 6);
  const Batch batch = data->batch(0, 0, 20);  // starts 0 and 1
  std::set<std::int64_t> starts;
  for (std::int64_t i = 0; i < 20; ++i) {
    const std::int64_t start = row(batch.ids, i)[0];
    starts.insert(start);
    EXPECT_EQ(row(batch.targets, i),
              (std::vector<std::int64_t>{start + 1, start + 2, start + 3, start + 4}));
  }
  EXPECT_EQ(starts, (std::set<std::int64_t>{100000, 100001}));
}

// llm.c's files begin with 256 int32: magic, version, number of tokens.
TEST_F(DataTest, HeaderOfLlmCIsLeftOut) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 6;
  const auto with_header = [&header](const std::vector<std::uint16_t>& numbers) {
    std::string bytes(reinterpret_cast<const char*>(header.data()), header.size() * 4);
    return bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 2);
  };
  const std::string good = write("good.bin", with_header({7, 7, 7, 7, 7, 7}));
  const auto data = open_data(tokens({good}), 8, 4, 0);
  EXPECT_EQ(data->tokens(), 6);
  EXPECT_TRUE((data->batch(0, 0, 4).ids == 7).all().item<bool>());
  EXPECT_THAT(refusal(tokens({write("bad.bin", with_header({7, 7, 7, 7, 9, 7}))}), 8).got,
              HasSubstr("token 9 at position 4"));
  EXPECT_THAT(refusal(tokens({good}, TokenType::uint32)).expected, HasSubstr("uint16"));
  EXPECT_THAT(refusal(tokens({write("cut.bin", with_header({7, 7, 7, 7, 7}))})).expected,
              HasSubstr("1036 bytes"));
}

TEST_F(DataTest, TokenFilesThatAreRefused) {
  const std::string good = write_numbers<std::uint16_t>("good.bin", {1, 2, 3, 4, 299, 6, 300, 8});
  EXPECT_THAT(refusal(tokens({good}), 300).got, HasSubstr("token 300 at position 6"));
  EXPECT_NO_THROW(open_data(tokens({good}), 301, 4, 0));
  EXPECT_THAT(refusal(tokens({write("odd.bin", "abc")})).got, HasSubstr("3 bytes"));
  EXPECT_THAT(refusal(tokens({write("half.bin", "abcdef")}, TokenType::uint32)).expected,
              HasSubstr("multiple of 4"));
  EXPECT_THAT(refusal(tokens({write("empty.bin", "")})).what, HasSubstr("empty"));
  EXPECT_THAT(refusal(tokens({folder_ / "absent.bin"})).got, HasSubstr("No such file"));
  EXPECT_EQ(refusal(tokens({folder_})).where, folder_.string());
  EXPECT_THAT(refusal(tokens({good}), 301, 8).got, HasSubstr("8 tokens"));
}

// That it is not read a second time shows where its contents change and its time does not.
TEST_F(DataTest, ATokenFileIsCheckedOnceUntilItIsWrittenTo) {
  const auto hash = [](const std::string& path) {
    return open_data(tokens({path}), 10, 4, 0)->content_hash();
  };
  const auto now = fs::file_time_type::clock::now();
  const auto written = [this](std::uint16_t last, fs::file_time_type when) {
    const std::string path = write_numbers<std::uint16_t>("a.bin", {1, 2, 3, 4, last});
    fs::last_write_time(path, when);
    return path;
  };
  const auto once = now - std::chrono::hours(2), later = now - std::chrono::hours(1);
  const std::uint64_t first = hash(written(5, once));
  EXPECT_EQ(hash(written(6, once)), first);
  EXPECT_NE(hash(written(6, later)), first);
  const std::string fresh = write_numbers<std::uint16_t>("a.bin", {1, 2, 3, 4, 6});
  const std::uint64_t then = hash(fresh);
  write_numbers<std::uint16_t>("a.bin", {1, 2, 3, 4, 7});
  EXPECT_NE(hash(fresh), then) << "its time may be the same";
}

TEST_F(DataTest, ATokenFileIsCheckedAgainForAnotherVocabulary) {
  const std::string path = write_numbers<std::uint16_t>("a.bin", {1, 2, 3, 4, 300});
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_NO_THROW(open_data(tokens({path}), 301, 4, 0));
  EXPECT_THAT(refusal(tokens({path}), 300).got, HasSubstr("token 300 at position 4"));
}

const std::string kChanged = "the data changed while the run read it";

TEST_F(DataTest, ATokenFileThatIsCutIsAnErrorThatNamesIt) {
  const std::string path = write_numbers("a.bin", std::vector<std::uint16_t>(100'000, 7));
  const auto data = open_data(tokens({path}), 8, 4, 0);
  data->check_unchanged();
  fs::resize_file(path, 100);
  const ErrorText text = test::error_text_of([&] { data->batch(0, 0, 20); });
  EXPECT_EQ(text.what, kChanged);
  EXPECT_EQ(text.where, path);
  EXPECT_EQ(text.got, "100 bytes, and 200,000 bytes at first");
  EXPECT_EQ(test::error_text_of([&] { data->check_unchanged(); }).what, kChanged);
}

TEST_F(DataTest, ATokenFileThatIsWrittenToIsAnError) {
  const std::string path = write_numbers<std::uint16_t>("a.bin", {1, 2, 3, 4, 5});
  const auto data = open_data(tokens({path}), 8, 4, 0);
  write_numbers<std::uint16_t>("a.bin", {8, 8, 8, 8, 8});
  EXPECT_THAT(test::error_text_of([&] { data->batch(0, 0, 1); }).got,
              HasSubstr("not in the vocabulary"));
  fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::seconds(9));
  EXPECT_EQ(test::error_text_of([&] { data->check_unchanged(); }).got, "it was written to");
}

TEST_F(DataTest, ATokenFileIsCheckedAgainForAnotherType) {
  const std::string path = write_numbers<std::uint16_t>("a.bin", std::vector<std::uint16_t>(20, 7));
  EXPECT_EQ(open_data(tokens({path}), 8, 4, 0)->tokens(), 20);
  EXPECT_EQ(refusal(tokens({path}, TokenType::uint32), 8).what, "a token is not in the vocabulary");
}

TEST_F(DataTest, ATokenThatIsNoByteIsNoText) {
  EXPECT_EQ(TextCodec({.source = DataKind::text}).decode({'h', 'i', 255, 256, 300}), "hi\xff??");
}

TEST_F(DataTest, EachTokenFileOfSeveralStaysAsItIs) {
  const std::string first = write_numbers<std::uint16_t>("1.bin", {1, 2, 3, 4, 5});
  const std::string last = write_numbers<std::uint16_t>("2.bin", {1, 2, 3, 4, 5});
  DataConfig mixed = tokens({first, last});
  mixed.weights = {1, 1};
  const auto sequence = open_data(tokens({first, last}), 8, 4, 0);
  const auto mixture = open_data(mixed, 8, 4, 0, /*global_batch=*/2);
  fs::resize_file(last, 4);
  EXPECT_EQ(test::error_text_of([&] { sequence->check_unchanged(); }).where, last);
  EXPECT_EQ(test::error_text_of([&] { mixture->check_unchanged(); }).where, last);
}

TEST_F(DataTest, ContentsAreTheSameOrNotThoseOfThePlan) {
  const std::string path = write("a.txt", "some text");
  const std::uint64_t planned = open_data(text({path}), 256, 4, 0)->content_hash();
  EXPECT_NE(planned, 0U);
  EXPECT_EQ(open_data(text({write("b.txt", "some text")}), 256, 4, 0)->content_hash(), planned);
  check_planned(*open_data(text({path}), 256, 4, 0), text({path}), planned);
  check_planned(*open_data(text({path}), 256, 4, 0), text({path}), 0);
  write("a.txt", "some test");
  const auto data = open_data(text({path}), 256, 4, 0);
  const ErrorText error = test::error_text_of([&] { check_planned(*data, text({path}), planned); });
  EXPECT_EQ(error.what, "the data is not what it was when the run was planned");
  EXPECT_EQ(error.where, path);
}

TEST_F(DataTest, WhatIsNoFileIsRefusedAndNotWaitedFor) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(refusal(text({fifo})).got, "a named pipe, not a file");
  EXPECT_EQ(refusal(tokens({fifo})).got, "a named pipe, not a file");
  EXPECT_EQ(refusal(text({"/dev/zero"})).got, "a device, not a file");
  fs::resize_file(write("sparse.txt", "x"), std::uintmax_t{1} << 42);
  EXPECT_THAT(refusal(text({folder_ / "sparse.txt"})).got, HasSubstr("more than memory"));
}

}  // namespace
}  // namespace ddprun
