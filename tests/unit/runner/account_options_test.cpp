// Numbers with units, as `ddprun account` reads them.
#include "runner/command/account_options.h"

#include "support/matchers.h"

namespace ddprun::account_options_test {
namespace {

std::string refusal(const AccountWords& words) {
  return test::error_of([&] { read_account_options(words); });
}

TEST(AccountOptions, ReadsNumbersWithTheirUnits) {
  const AccountOptions options =
      read_account_options({.ranks = "1,2,1024", .memory = "1.5GiB", .link = "100Gbit/s,5us"});
  EXPECT_THAT(options.ranks, ElementsAre(1, 2, 1024));
  EXPECT_EQ(options.memory_bytes, 1.5 * 1024 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(options.links->within.bytes_per_s, 12.5e9);
  EXPECT_DOUBLE_EQ(options.links->between.latency_s, 5e-6);
}

TEST(AccountOptions, HostsMakeUpTheRanks) {
  const AccountOptions options = read_account_options({.hosts = "8x4"});
  EXPECT_THAT(options.ranks, ElementsAre(32));
  EXPECT_EQ(options.ranks_per_host, 4);
  EXPECT_THAT(refusal({.ranks = "16", .hosts = "8x4"}), HasSubstr("which make up --ranks"));
  for (const char* hosts : {"8x", "8"}) {
    EXPECT_THAT(refusal({.hosts = hosts}), HasSubstr("hosts x ranks of each")) << hosts;
  }
}

TEST(AccountOptions, HostsHaveALinkOfTheirOwn) {
  const AccountOptions options = read_account_options({.link = "200GB/s,5us",
                                                       .host_link = "50GB/s,10us",
                                                       .hosts = "8x8",
                                                       .tflops = "400",
                                                       .memory_rate = "3TB/s"});
  EXPECT_DOUBLE_EQ(options.links->within.bytes_per_s, 200e9);
  EXPECT_DOUBLE_EQ(options.links->between.bytes_per_s, 50e9);
  EXPECT_DOUBLE_EQ(*options.operations_per_s, 4e14);
  EXPECT_DOUBLE_EQ(*options.bytes_per_s, 3e12);
}

TEST(AccountOptions, RefusesWhatHasNoEffect) {
  EXPECT_THAT(refusal({.tflops = "400"}), HasSubstr("--tflops has no effect without --link"));
  EXPECT_THAT(refusal({.link = "1GB/s,5us", .host_link = "1GB/s,5us"}),
              HasSubstr("--host-link has no effect without --hosts"));
  EXPECT_THAT(refusal({.link = "1GB/s,5us", .tflops = "4e14/s"}),
              HasSubstr("--tflops needs a positive number"));
  EXPECT_THAT(refusal({.link = "1GB/s,5us", .memory_rate = "3TB/s"}),
              HasSubstr("--memory-rate has no effect without --tflops"));
  EXPECT_THAT(refusal({.link = "1GB/s,5us", .tflops = "400", .memory_rate = "3"}),
              HasSubstr("--memory-rate needs a bandwidth"));
}

TEST(AccountOptions, NothingGivenAsksForNothing) {
  const AccountOptions options = read_account_options({});
  EXPECT_TRUE(options.ranks.empty());
  EXPECT_FALSE(options.memory_bytes || options.links);
}

TEST(AccountOptions, RefusesWhatHasNoUnitOrMeansNothing) {
  for (const char* memory :
       {"80", "80 GB", "-1GB", "GB", "80KB", "1e999GB", "1e300GB", "nanGB", "infGB"}) {
    EXPECT_THAT(refusal({.memory = memory}), HasSubstr("a size with its unit")) << memory;
  }
  for (const char* link :
       {"200GB/s", "200GB/s,5", "5us,200GB/s", "200GB/s,5us,1", ",", "0GB/s,5us", "1GB/s,infus"}) {
    EXPECT_THAT(refusal({.link = link}), HasSubstr("a bandwidth and a latency")) << link;
  }
  for (const char* ranks : {"0", "-1", "4097", "two", "1,,2", "1.5"}) {
    EXPECT_THAT(refusal({.ranks = ranks}), HasSubstr("no number of ranks")) << ranks;
  }
}

}  // namespace
}  // namespace ddprun::account_options_test
