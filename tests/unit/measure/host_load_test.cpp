// The lines of /proc/stat, and this process's own time taken from them.
#include "ddprun/measure/host_load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ddprun/base/clock.h"
#include "ddprun/measure/environment.h"
#include "support/system_files.h"

namespace ddprun::host_load_test {
namespace {

TEST(HostLoad, CoresAreThoseThatWereAskedFor) {
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto cores = core_times(
      "cpu  99 99 99 99 9 9 9 9 0 0\ncpu0 10 2 3 500 7 1 1 4 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\n"
      "cpu10 20 0 0 1\nintr 5\ncpu11 9 9 9 9 9 9 9 9\n",
      {0, 10, 11});
  ASSERT_EQ(cores.size(), 2u) << "an old kernel counts less; what follows other lines is no core";
  EXPECT_EQ(cores[0].core, 0);
  EXPECT_NEAR(cores[0].busy_s, 15 * tick_s, 1e-9);
  EXPECT_NEAR(cores[0].stolen_s, 4 * tick_s, 1e-9);
  EXPECT_EQ(cores[1].core, 10);
  EXPECT_EQ(cores[1].stolen_s, 0);
}

TEST(HostLoad, WhatCountsNothingSeesNothing) {
  EXPECT_TRUE(core_times("cpu  0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n", {0}).empty());
  EXPECT_TRUE(core_times("", {0}).empty());
  EXPECT_TRUE(core_times("cpux 1 2 3 4\ncpu0 one 2\n", {0}).empty());
}

double throttled_in(const std::string& lines,
                    std::vector<std::pair<std::string, std::string>> files) {
  for (auto& [name, text] : files) name = "sys/fs/cgroup/" + name + "/cpu.stat";
  return throttled_seconds(test::SystemFiles(lines, files).root());
}

TEST(HostLoad, WhatQuotasHeldBackIsOfAllGroupsAbove) {
  const std::string stat = "nr_throttled 9\nthrottled_usec ";
  EXPECT_NEAR(throttled_in("0::/a/b\n", {{"a/b", stat + "1500000\n"}, {"a", stat + "250000\n"}}),
              1.75, 1e-9);
  EXPECT_NEAR(throttled_in("2:cpu,cpuacct:/x\n0::/\n",
                           {{"cpu,cpuacct/x", "nr_throttled 9\nthrottled_time 3000000000\n"}}),
              3, 1e-9);
  EXPECT_EQ(throttled_in("0::/a\n", {{"a", "usage_usec 77\n"}}), 0) << "without a quota";
  EXPECT_EQ(throttled_in("", {}), -1) << "not seen";
}

TEST(HostLoad, WhatQuotasHeldBackIsSeenAtBothEndsOrNotAtAll) {
  const test::SystemFiles files("0::/a\n", {});
  const std::filesystem::path folder = files.root() / "sys/fs/cgroup/a";
  const auto held_back = [&folder](int us) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "cpu.stat") << "throttled_usec " << us << "\n";
  };
  LoadMeter meter(usable_cores(), files.root());
  held_back(3'000'000);
  EXPECT_EQ(meter.end().throttled_s, -1) << "it counts from long before the begin";
  meter.begin();
  held_back(3'500'000);
  EXPECT_NEAR(meter.end().throttled_s, 0.5, 1e-9);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(meter.end().throttled_s, -1);
}

TEST(HostLoad, CoresHaveWhatWasCountedSinceTheBegin) {
  const test::SystemFiles files("", {});
  const auto count = [&files](int busy, int stolen) {
    std::ofstream(files.root() / "proc/stat")
        << "cpu0 " << busy << " 0 0 1 0 0 0 " << stolen << "\n";
  };
  count(100, 30);
  const LoadMeter meter({0}, files.root());
  count(150, 37);
  const std::vector<CoreTime> cores = meter.end().cores;
  ASSERT_EQ(cores.size(), 1u);
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_NEAR(cores[0].busy_s, 50 * tick_s, 1e-9);
  EXPECT_NEAR(cores[0].stolen_s, 7 * tick_s, 1e-9);
}

TEST(HostLoad, OwnTimeIsOwn) {
  LoadMeter meter(usable_cores());
  volatile std::uint64_t sum = 0;
  for (const std::int64_t begin_ns = now_ns(); now_ns() - begin_ns < 50'000'000;) sum = sum + 1;
  const HostLoad load = meter.end();
  EXPECT_GE(load.wall_s, 0.05);
  EXPECT_GT(load.own_s, 0);
  EXPECT_LE(load.own_s, load.wall_s + 0.02) << "one thread";
  meter.begin();
  EXPECT_LT(meter.end().wall_s, load.wall_s);
}

}  // namespace
}  // namespace ddprun::host_load_test
