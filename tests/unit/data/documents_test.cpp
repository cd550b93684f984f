// Documents in samples: where each begins, which targets count, and by what the loss is divided.
#include <ATen/ops/equal.h>

#include <chrono>
#include <filesystem>

#include "ddprun/data/data.h"
#include "support/matchers.h"
#include "support/temporary_folder.h"

namespace ddprun::documents_test {
namespace {

constexpr std::int64_t kLength = 8, kBatch = 6, kEnd = 9;

template <class Number>
std::vector<Number> row(const at::Tensor& tensor, std::int64_t index) {
  const at::Tensor values = tensor[index].contiguous();
  return {values.const_data_ptr<Number>(), values.const_data_ptr<Number>() + values.numel()};
}

class Documents : public ::testing::Test {
 protected:
  /// Token i is i % 8, but for those at the places, which end a document.
  std::string tokens(const std::string& name, int count, const std::vector<int>& ends) {
    std::vector<std::uint16_t> all;
    for (int i = 0; i < count; ++i) all.push_back(static_cast<std::uint16_t>(i % 8));
    for (const int end : ends) all[end] = kEnd;
    folder_.write(name, {reinterpret_cast<const char*>(all.data()), all.size() * 2});
    return (folder_.path() / name).string();
  }
  static std::unique_ptr<DataSource> open(const DataConfig& config) {
    return open_data(config, 256, kLength, 3, kBatch);
  }

  test::TemporaryFolder folder_;
};

TEST_F(Documents, BeginBehindTheirEnds) {
  const auto data = open({.source = DataKind::tokens,
                          .path = {tokens("a.bin", 60, {2, 3, 7, 8, 30})},
                          .order = DataOrder::sequential,
                          .document_end = kEnd});
  const Batch batch = data->batch(0, 0, 2);
  EXPECT_THAT(row<std::int64_t>(batch.ids, 0), ElementsAre(0, 1, 9, 9, 4, 5, 6, 9));
  EXPECT_THAT(row<std::int64_t>(batch.targets, 0), ElementsAre(1, 9, -100, -100, 5, 6, 9, -100))
      << "an end is a target, and what follows it is none";
  EXPECT_THAT(row<std::int32_t>(batch.first_keys, 0), ElementsAre(0, 0, 0, 3, 4, 4, 4, 4));
  EXPECT_THAT(row<std::int32_t>(batch.first_keys, 1), ElementsAre(0, 1, 1, 1, 1, 1, 1, 1));
  // 48 tokens of six samples, of which 5 end a document, over three batches of two.
  EXPECT_DOUBLE_EQ(batch.divisor, (48 - 5) / 3.0);
}

// However a step's samples are cut into batches, in any order, mixed and of several files.
TEST_F(Documents, TheMeanOverBatchesIsThatOfTheStep) {
  const std::string a = tokens("a.bin", 100, {5, 6, 40, 99}), b = tokens("b.bin", 57, {0, 30, 31});
  folder_.write("text.txt", "one two three four five six seven eight nine ten");
  const std::string text = (folder_.path() / "text.txt").string();
  for (const DataOrder order : {DataOrder::random, DataOrder::shuffled, DataOrder::sequential}) {
    for (const auto& config :
         {DataConfig{.source = DataKind::tokens, .path = {a, b}, .document_end = kEnd},
          DataConfig{
              .source = DataKind::tokens, .path = {a, b}, .weights = {2, 1}, .document_end = kEnd},
          DataConfig{.source = DataKind::text, .path = {text}, .document_end = ' '}}) {
      DataConfig ordered = config;
      ordered.order = order;
      const auto data = open(ordered);
      for (std::int64_t step = 0; step < 5; ++step) {
        const Batch whole = data->batch(step, 0, kBatch);
        const auto counted = (whole.targets >= 0).sum().item<double>();
        EXPECT_DOUBLE_EQ(whole.divisor, counted) << "step " << step;
        const Batch part = data->batch(step, 4, 2);
        EXPECT_DOUBLE_EQ(part.divisor, counted / 3);
        EXPECT_TRUE(at::equal(part.first_keys, whole.first_keys.narrow(0, 4, 2)));
        EXPECT_TRUE(at::equal(part.targets, whole.targets.narrow(0, 4, 2)));
      }
    }
  }
}

TEST_F(Documents, EndWhereverAFileIsReadToInPieces) {
  constexpr int kCount = 600'000;  // more than a MiB
  std::vector<int> ends;
  for (int end = 3; end < kCount; end += 10) ends.push_back(end);
  const auto data = open(
      {.source = DataKind::tokens, .path = {tokens("a.bin", kCount, ends)}, .document_end = kEnd});
  for (std::int64_t step = 0; step < 20; ++step) {
    const Batch whole = data->batch(step, 0, kBatch);
    EXPECT_DOUBLE_EQ(whole.divisor, (whole.targets >= 0).sum().item<double>()) << "step " << step;
  }
}

TEST_F(Documents, OfAFileThatWasReadEndWithAnotherTokenIfToldSo) {
  DataConfig config = {.source = DataKind::tokens, .path = {tokens("a.bin", 60, {2, 30})}};
  std::filesystem::last_write_time(
      config.path[0], std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  for (const std::int64_t end : {kEnd, std::int64_t{5}}) {
    config.document_end = end;
    const Batch whole = open(config)->batch(0, 0, kBatch);
    EXPECT_DOUBLE_EQ(whole.divisor, (whole.targets >= 0).sum().item<double>()) << end;
  }
}

TEST_F(Documents, OfNothingButEndsHaveNoLoss) {
  const auto data = open({.source = DataKind::tokens,
                          .path = {tokens("a.bin", 9, {0, 1, 2, 3, 4, 5, 6, 7, 8})},
                          .document_end = kEnd});
  const Batch batch = data->batch(0, 0, kBatch);
  EXPECT_EQ(batch.targets.max().item<std::int64_t>(), -100);
  EXPECT_EQ(batch.divisor, 1) << "0 would stand for all of them";
}

TEST_F(Documents, WithoutAnEndAreNotMarked) {
  const auto data = open({.source = DataKind::tokens, .path = {tokens("a.bin", 60, {2})}});
  const Batch batch = data->batch(0, 0, 2);
  EXPECT_FALSE(batch.first_keys.defined());
  EXPECT_EQ(batch.divisor, 0);
  EXPECT_GE(batch.targets.min().item<std::int64_t>(), 0);
}

TEST_F(Documents, EndWithATokenThatThereIs) {
  folder_.write("text.txt", "one two three four");
  const DataConfig text = {.source = DataKind::text,
                           .path = {(folder_.path() / "text.txt").string()},
                           .document_end = 256};
  const ErrorText error = test::error_text_of([&] { open_data(text, 1000, kLength, 3, kBatch); });
  EXPECT_EQ(error.where, "data.document_end");
  EXPECT_THAT(error.expected, HasSubstr("a token below 256: of text a token is a byte"));
  const DataConfig uint16 = {.source = DataKind::tokens,
                             .path = {tokens("a.bin", 60, {2})},
                             .document_end = (1 << 16) + kEnd};
  EXPECT_THAT(test::error_text_of([&] { open_data(uint16, 100'000, kLength, 3, kBatch); }).expected,
              HasSubstr("a token below 65536: uint16 holds no other"));
}

}  // namespace
}  // namespace ddprun::documents_test
