// Samples dealt to sources by weight, and files by wildcards.
#include "ddprun/data/sample_order.h"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <map>
#include <numeric>

#include "ddprun/data/data.h"
#include "ddprun/data/token_sequence.h"
#include "support/ddprun_command.h"

namespace ddprun::mixture_test {
namespace {

TEST(Mixture, SharesHoldWithinOneSampleAfterAnyNumberOfThem) {
  for (const std::vector<double>& weights : {std::vector<double>{1},
                                             {1, 1},
                                             {0.7, 0.3},
                                             {5, 3, 2},
                                             {0.9, 0.06, 0.04},
                                             {1, 1, 1, 1, 1},
                                             {250.9, 250.9, 249.1, 249.1}}) {
    const Mixture mixture(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<std::int64_t> dealt(weights.size());
    for (std::int64_t sample = 0; sample < 3500; ++sample) {
      const auto [source, number] = mixture.of(sample);
      EXPECT_EQ(number, dealt[source]++) << "each source's samples in turn";
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double share = weights[i] / sum * static_cast<double>(sample + 1);
        ASSERT_LT(std::abs(static_cast<double>(dealt[i]) - share), 1.7) << sample;
      }
    }
  }
}

TEST(Mixture, ASourceOfLittleWeightComesAtLeastOnceInACycle) {
  for (const std::vector<double>& weights : {std::vector<double>{1, 1e-9},
                                             {1, 1e-6, 1e-6},
                                             {1e-6, 0.5, 1e-6, 1e-6, 0.5},
                                             std::vector<double>(Mixture::kCycle, 1)}) {
    const Mixture mixture(weights);
    std::vector<int> seen(weights.size());
    for (std::int64_t sample = 0; sample < 2 * Mixture::kCycle; ++sample) {
      ++seen[mixture.of(sample).source];
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(seen[i] == 2 || weights[i] == 1 || weights[i] == 0.5) << i;
      EXPECT_GE(seen[i], 2) << i;
    }
  }
}

class MixedFiles : public testing::Test {
 protected:
  MixedFiles() {
    folder_.write("a/1.txt", std::string(400, 'a'));
    folder_.write("a/2.txt", std::string(400, 'b'));
    folder_.write("c.txt", std::string(90, 'c'));
  }
  std::string path(const std::string& name) const { return folder_.path() / name; }
  DataConfig config(DataOrder order) const {
    return {.source = DataKind::text,
            .path = {path("a/*.txt"), path("c.txt")},
            .weights = {3, 1},
            .order = order};
  }
  test::TemporaryFolder folder_;
};

TEST_F(MixedFiles, HaveTheirSharesOnAnyNumberOfRanksAndInEachOrder) {
  for (const DataOrder order : {DataOrder::random, DataOrder::shuffled, DataOrder::sequential}) {
    const auto data = open_data(config(order), 256, 8, 1, /*global_batch=*/8);
    EXPECT_EQ(data->tokens(), 890);
    std::map<char, int> count;
    for (std::int64_t step = 0; step < 50; ++step) {
      const Batch whole = data->batch(step, 0, 8), part = data->batch(step, 3, 2);
      EXPECT_TRUE(whole.ids.narrow(0, 3, 2).equal(part.ids));
      for (std::int64_t i = 0; i < 8; ++i) {
        ++count[static_cast<char>(whole.ids[i][0].item<std::int64_t>())];
        EXPECT_EQ(data->pieces(step, i).front().path == path("c.txt"),
                  whole.ids[i][0].item<std::int64_t>() == 'c');
      }
    }
    EXPECT_EQ(count['c'], 100) << "a quarter of 400";
    EXPECT_EQ(count['a'] + count['b'], 300);
    EXPECT_GT(count['b'], 100) << "the pattern's files are one sequence";
  }
}

TEST_F(MixedFiles, AnotherContentOfAnyIsAnotherContent) {
  const auto hash = [this] {
    return open_data(config(DataOrder::random), 256, 8, 1, 8)->content_hash();
  };
  for (const char* const name : {"a/1.txt", "a/2.txt", "c.txt"}) {
    const std::uint64_t before = hash();
    folder_.write(name, std::string(90, 'x'));
    EXPECT_NE(hash(), before) << name;
  }
}

TEST_F(MixedFiles, SequentialReadsEachFromItsBegin) {
  const auto data = open_data(config(DataOrder::sequential), 256, 8, 1, 8);
  std::int64_t next = 0;
  for (std::int64_t sample = 0; sample < 40; ++sample) {
    const FilePiece piece = data->pieces(sample / 8, sample % 8).front();
    if (piece.path != path("c.txt")) continue;
    EXPECT_EQ(piece.first, next);
    next += 8;
  }
  EXPECT_GT(next, 60);
}

TEST_F(MixedFiles, WildcardsMatchInOrderOrAreRefused) {
  EXPECT_THAT(matching_files(path("a/?.txt")), ElementsAre(path("a/1.txt"), path("a/2.txt")));
  EXPECT_THAT(matching_files(path("absent.txt")), ElementsAre(path("absent.txt")));
  DataConfig many = config(DataOrder::random);
  many.path.assign(1001, path("c.txt"));
  many.weights.assign(1001, 1);
  EXPECT_THAT(test::error_of<ConfigError>([&] { open_data(many, 256, 8, 1, 8); }),
              HasSubstr("more numbers than shares are counted in"));
  folder_.write("[x].txt", "x");
  EXPECT_THAT(matching_files(path("[x].txt")), ElementsAre(path("[x].txt"))) << "it is there";
  const std::string long_pattern = path(std::string(300, '['));
  EXPECT_THAT(test::error_of<ConfigError>([&] { matching_files(long_pattern); }),
              HasSubstr("no file matches"));
  EXPECT_THAT(test::error_of<ConfigError>([&] { matching_files(path("b/*.txt")); }),
              HasSubstr("no file matches"));
}

TEST_F(MixedFiles, AFolderThatIsThereHasNoWildcards) {
  folder_.write("[a] *\\/1.txt", "x");
  EXPECT_THAT(matching_files(path("[a] *\\/?.txt")), ElementsAre(path("[a] *\\/1.txt")));
  EXPECT_THAT(matching_files(path("?/1.txt")), ElementsAre(path("a/1.txt"))) << "is not there";
}

}  // namespace
}  // namespace ddprun::mixture_test
