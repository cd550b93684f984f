// Numbers with units, as `ddprun account` reads them.
#include "runner/command/account_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace ddprun::account_options_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const AccountWords& words) {
  return test::error_of([&] { read_account_options(words); });
}

TEST(AccountOptions, ReadsNumbersWithTheirUnits) {
  const AccountOptions options = read_account_options(
      {.ranks = "1,2,1024", .memory = "1.5GiB", .link = "100Gbit/s,5us", .hosts = ""});
  EXPECT_THAT(options.ranks, ElementsAre(1, 2, 1024));
  EXPECT_EQ(options.memory_bytes, 1.5 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(options.link->bytes_per_s, 12.5e9);
  EXPECT_DOUBLE_EQ(options.link->latency_s, 5e-6);
}

TEST(AccountOptions, HostsMakeUpTheRanks) {
  const AccountOptions options =
      read_account_options({.ranks = "", .memory = "", .link = "", .hosts = "8x4"});
  EXPECT_THAT(options.ranks, ElementsAre(32));
  EXPECT_EQ(options.ranks_per_host, 4);
  EXPECT_THAT(refusal({.ranks = "16", .memory = "", .link = "", .hosts = "8x4"}),
              HasSubstr("which make up --ranks"));
  EXPECT_THAT(refusal({.ranks = "", .memory = "", .link = "", .hosts = "8x"}),
              HasSubstr("hosts x ranks of each"));
}

TEST(AccountOptions, NothingGivenAsksForNothing) {
  const AccountOptions options = read_account_options({});
  EXPECT_TRUE(options.ranks.empty());
  EXPECT_FALSE(options.memory_bytes || options.link);
}

TEST(AccountOptions, RefusesWhatHasNoUnitOrMeansNothing) {
  for (const char* memory : {"80", "80 GB", "-1GB", "GB", "80KB", "1e999GB"}) {
    EXPECT_THAT(refusal({.ranks = "", .memory = memory, .link = "", .hosts = ""}),
                HasSubstr("a size with its unit"))
        << memory;
  }
  for (const char* link :
       {"200GB/s", "200GB/s,5", "5us,200GB/s", "200GB/s,5us,1", ",", "0GB/s,5us"}) {
    EXPECT_THAT(refusal({.ranks = "", .memory = "", .link = link, .hosts = ""}),
                HasSubstr("a bandwidth and a latency"))
        << link;
  }
  for (const char* ranks : {"0", "-1", "4097", "two", "1,,2", "1.5"}) {
    EXPECT_THAT(refusal({.ranks = ranks, .memory = "", .link = "", .hosts = ""}),
                HasSubstr("no number of ranks"))
        << ranks;
  }
}

}  // namespace
}  // namespace ddprun::account_options_test
