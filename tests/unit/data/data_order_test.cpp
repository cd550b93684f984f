// Windows in order: permutations without memory, epochs that read each window once, batches that
// depend on nothing but the number of the sample.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "ddprun/base/choice.h"
#include "ddprun/data/data.h"
#include "ddprun/data/sample_order.h"
#include "support/temporary_folder.h"

namespace ddprun::order_test {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int64_t>;

std::vector<std::uint64_t> all_permuted(std::uint64_t size, std::uint64_t key) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t value = 0; value < size; ++value) out.push_back(permuted(value, size, key));
  return out;
}

TEST(Permutation, SendsEachNumberToAnotherOne) {
  std::vector<std::uint64_t> sizes = {65'521, 65'536, 65'537, 104'729, 262'147};
  for (std::uint64_t size = 1; size <= 300; ++size) sizes.push_back(size);
  for (const std::uint64_t size : sizes) {
    std::vector<std::uint64_t> values = all_permuted(size, 7 + size);
    std::ranges::sort(values);
    std::vector<std::uint64_t> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 0U);
    ASSERT_EQ(values, numbers) << size;
  }
}

TEST(Permutation, StaysWithinSizesThatNoMemoryHolds) {
  for (const std::uint64_t size : {(std::uint64_t{1} << 61) - 1, std::uint64_t{1} << 62}) {
    std::set<std::uint64_t> values;
    for (std::uint64_t value = 0; value < 1000; ++value) {
      values.insert(permuted(size - 1 - value, size, 3));
    }
    EXPECT_EQ(values.size(), 1000U);
    EXPECT_LT(*values.rbegin(), size);
    EXPECT_GT(*values.rbegin(), size / 10 * 9);
    EXPECT_LT(*values.begin(), size / 10);
  }
}

TEST(Permutation, EachKeyHasItsOwn) {
  std::set<std::vector<std::uint64_t>> found;
  for (std::uint64_t key = 0; key < 1000; ++key) found.insert(all_permuted(100, key));
  EXPECT_EQ(found.size(), 1000U);
}

TEST(Permutation, KeysSendEachNumberEverywhereAlike) {
  constexpr int kKeys = 10'000;
  for (const std::uint64_t size : {3, 7, 10, 16}) {
    const double expected = static_cast<double>(kKeys) / static_cast<double>(size);
    std::vector<std::vector<int>> counts(size, std::vector<int>(size));
    for (int key = 0; key < kKeys; ++key) {
      for (std::uint64_t value = 0; value < size; ++value) {
        ++counts[value][permuted(value, size, static_cast<std::uint64_t>(key))];
      }
    }
    for (const auto& row : counts) {
      for (const int count : row) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected)) << size;
    }
  }
}

/// Token i of 103 is i: with a context of 4, 25 windows and 2 tokens that no window has.
class DataOrderTest : public testing::Test {
 protected:
  static constexpr std::int64_t kContext = 4, kWindows = 25, kGlobalBatch = 8;

  DataOrderTest() {
    std::ofstream text(folder_ / "a.txt", std::ios::binary);
    std::ofstream first(folder_ / "1.bin", std::ios::binary);
    std::ofstream second(folder_ / "2.bin", std::ios::binary);
    for (std::uint16_t i = 0; i < 103; ++i) {
      text.put(static_cast<char>(i));
      (i < 50 ? first : second).write(reinterpret_cast<const char*>(&i), sizeof i);
    }
  }

  DataConfig config(DataKind source, DataOrder order) const {
    DataConfig out{.source = source, .order = order};
    if (source == DataKind::text) out.path = {folder_ / "a.txt"};
    if (source == DataKind::tokens) out.path = {folder_ / "1.bin", folder_ / "2.bin"};
    return out;
  }
  std::unique_ptr<DataSource> open(DataOrder order, std::uint64_t seed = 0,
                                   DataKind source = DataKind::tokens) const {
    return open_data(config(source, order), 256, kContext, seed, kGlobalBatch);
  }
  /// The windows of `count` samples of the run from `first` on, each of which is checked.
  static Numbers windows(const DataSource& data, std::int64_t first, std::int64_t count) {
    Numbers out;
    for (std::int64_t n = first; n < first + count; ++n) {
      const Batch batch = data.batch(n / kGlobalBatch, n % kGlobalBatch, 1);
      const auto begin = batch.ids[0][0].item<std::int64_t>();
      EXPECT_EQ(begin % kContext, 0);
      for (std::int64_t i = 0; i < kContext; ++i) {
        EXPECT_EQ(batch.ids[0][i].item<std::int64_t>(), begin + i);
        EXPECT_EQ(batch.targets[0][i].item<std::int64_t>(), begin + i + 1);
      }
      out.push_back(begin / kContext);
    }
    return out;
  }

  const test::TemporaryFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(DataOrderTest, SequentialReadsWindowAfterWindow) {
  for (const DataKind source : {DataKind::text, DataKind::tokens}) {
    const auto data = open(DataOrder::sequential, 0, source);
    const Numbers found = windows(*data, 0, 3 * kWindows);
    for (std::int64_t n = 0; n < 3 * kWindows; ++n) EXPECT_EQ(found[n], n % kWindows);
  }
}

TEST_F(DataOrderTest, AShuffledEpochReadsEachWindowOnce) {
  for (const DataKind source : {DataKind::text, DataKind::tokens}) {
    const auto data = open(DataOrder::shuffled, 0, source);
    std::set<Numbers> epochs;
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      Numbers found = windows(*data, epoch * kWindows, kWindows);
      epochs.insert(found);
      std::ranges::sort(found);
      for (std::int64_t window = 0; window < kWindows; ++window) EXPECT_EQ(found[window], window);
    }
    EXPECT_EQ(epochs.size(), 5U) << "two epochs have one order";
  }
}

TEST_F(DataOrderTest, SeedsShuffleDifferently) {
  const Numbers of_0 = windows(*open(DataOrder::shuffled, 0), 0, kWindows);
  EXPECT_EQ(windows(*open(DataOrder::shuffled, 0), 0, kWindows), of_0);
  EXPECT_NE(windows(*open(DataOrder::shuffled, 1), 0, kWindows), of_0);
  EXPECT_EQ(windows(*open(DataOrder::sequential, 1), 0, kWindows),
            windows(*open(DataOrder::sequential, 2), 0, kWindows));
}

TEST_F(DataOrderTest, TheBatchIsTheSameWhateverTheRankCountAndTheFirstStep) {
  for (const auto& [source, order] : {std::pair{DataKind::text, DataOrder::random},
                                      {DataKind::random, DataOrder::random},
                                      {DataKind::tokens, DataOrder::random},
                                      {DataKind::tokens, DataOrder::shuffled},
                                      {DataKind::tokens, DataOrder::sequential}}) {
    SCOPED_TRACE(std::string(name_of(source)) + " " + name_of(order));
    const auto data = open(order, 42, source);
    for (const std::int64_t step : {0, 3, 1000}) {
      const Batch whole = data->batch(step, 0, kGlobalBatch);
      for (const std::int64_t parts : {1, 2, 4, 8}) {  // ranks x accumulation
        std::vector<at::Tensor> ids, targets;
        const auto other = open(order, 42, source);  // which begins at this step
        for (std::int64_t part = 0; part < parts; ++part) {
          const std::int64_t count = kGlobalBatch / parts;
          const Batch own = other->batch(step, part * count, count);
          ids.push_back(own.ids);
          targets.push_back(own.targets);
        }
        EXPECT_TRUE(at::equal(at::cat(ids), whole.ids)) << parts;
        EXPECT_TRUE(at::equal(at::cat(targets), whole.targets)) << parts;
      }
      EXPECT_FALSE(at::equal(data->batch(step + 1, 0, kGlobalBatch).ids, whole.ids));
      const auto seeded = open(order, 43, source)->batch(step, 0, kGlobalBatch);
      EXPECT_EQ(at::equal(seeded.ids, whole.ids), order == DataOrder::sequential);
    }
  }
}

TEST_F(DataOrderTest, PiecesAreWhatIsRead) {
  for (const DataOrder order : {DataOrder::shuffled, DataOrder::sequential, DataOrder::random}) {
    const auto data = open(order);
    int split = 0;
    for (std::int64_t sample = 0; sample < 4 * kWindows; ++sample) {
      const std::int64_t step = sample / kGlobalBatch, index = sample % kGlobalBatch;
      const auto first_read = data->batch(step, index, 1).ids[0][0].item<std::int64_t>();
      const std::vector<FilePiece> pieces = data->pieces(step, index);
      std::int64_t next = first_read;
      for (const FilePiece& piece : pieces) {
        const bool second = piece.path.ends_with("2.bin");
        EXPECT_EQ(piece.first + (second ? 50 : 0), next);
        next += piece.count;
        EXPECT_TRUE(second || next <= 50);
      }
      EXPECT_EQ(next, first_read + kContext + 1);
      split += pieces.size() == 2 ? 1 : 0;
    }
    EXPECT_GT(split, 0) << "no sample reached from file to file";
  }
  EXPECT_TRUE(open(DataOrder::random, 0, DataKind::random)->pieces(0, 0).empty());
}

TEST_F(DataOrderTest, ALastWindowThatIsNotWholeIsLeftOut) {
  const auto last_read = [this](const std::string& text, DataOrder order) {
    std::ofstream(folder_ / "a.txt", std::ios::binary) << text;
    const Batch batch = open(order, 0, DataKind::text)->batch(9, 0, kGlobalBatch);
    return static_cast<char>(batch.targets.max().item<int>());
  };
  for (const DataOrder order : {DataOrder::shuffled, DataOrder::sequential}) {
    EXPECT_EQ(last_read("abcde", order), 'e');
    EXPECT_EQ(last_read("abcdefgh", order), 'e');
    EXPECT_EQ(last_read("abcdefghi", order), 'i');
  }
}

TEST_F(DataOrderTest, WithoutTheGlobalBatchNothingIsReadInOrder) {
  const auto data = open_data(config(DataKind::text, DataOrder::sequential), 256, kContext, 0);
  EXPECT_THROW(data->batch(0, 0, 1), c10::Error);
}

// As they were before there was an order: start = hash(hash(seed, step), sample) mod (103 - 4).
TEST_F(DataOrderTest, RandomStartsWhereItAlwaysDid) {
  const auto starts = [](const DataSource& data, std::int64_t step) {
    const at::Tensor first = data.batch(step, 0, 4).ids.select(1, 0).contiguous();
    return Numbers(first.const_data_ptr<std::int64_t>(), first.const_data_ptr<std::int64_t>() + 4);
  };
  EXPECT_EQ(starts(*open(DataOrder::random, 0), 0), (Numbers{41, 71, 98, 79}));
  EXPECT_EQ(starts(*open(DataOrder::random, 7, DataKind::text), 12), (Numbers{15, 39, 69, 65}));
  EXPECT_EQ(starts(*open(DataOrder::random, 7, DataKind::random), 12),
            (Numbers{168, 72, 171, 142}));
}

}  // namespace
}  // namespace ddprun::order_test
