// The environment's facts are there, peak memory counts.
#include "ddprun/measure/environment.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ddprun/base/machine_memory.h"
#include "support/matchers.h"
#include "support/system_files.h"

namespace ddprun {
namespace {

TEST(Environment, EveryFactHasAValue) {
  const auto facts = describe_environment();
  std::vector<std::string> names;
  for (const auto& [name, value] : facts) {
    names.push_back(name);
    EXPECT_FALSE(value.empty()) << name;
  }
  names.resize(names.size() - set_variables().size());  // which follow
  EXPECT_THAT(
      names, ElementsAre("cpu", "cores", "simd", "products", "float32 products", "memory", "kernel",
                         "hostname", "torch", "gloo", "compiler", "build", "ddprun", "time"));
  EXPECT_THAT(facts[5].second, ContainsRegex("^[0-9]+\\.[0-9] GiB$"));
  EXPECT_NEAR(std::stod(facts[5].second), static_cast<double>(total_memory()) / (1 << 30), 0.051);
  EXPECT_THAT(facts[8].second, ContainsRegex("^[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(facts[13].second,
              ContainsRegex("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"));
}

TEST(Environment, SizesUnderProcAreInKib) {
  const test::SystemFiles system("", {{"proc/self/status", "VmHWMs: 1 kB\nVmHWM:\t   12 kB\n"}});
  EXPECT_EQ(proc_bytes((system.root() / "proc/self/status").c_str(), "VmHWM"), 12 * 1024);
}

TEST(Environment, PeakResidentGrowsWithUse) {
  const std::int64_t before = peak_resident_bytes();
  EXPECT_GT(before, 1 << 20);
  constexpr std::size_t kBytes = 256u << 20;
  std::vector<char> memory(kBytes, 1);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 1), static_cast<std::ptrdiff_t>(kBytes));
  EXPECT_GT(peak_resident_bytes(), before + (100 << 20));
}

/// The quota of a process in the groups of `lines`, where these files are.
std::optional<double> quota_of(const std::string& lines,
                               std::vector<std::pair<std::string, std::string>> files) {
  for (auto& [name, text] : files) name = "sys/fs/cgroup/" + name;
  const test::SystemFiles system(lines, files);
  return cpu_quota(system.root());
}

TEST(CpuQuota, IsTheSmallestOfTheGroupsAbove) {
  EXPECT_EQ(quota_of("0::/a/b\n", {{"a/b/cpu.max", "max 100000"}, {"a/cpu.max", "75000 50000"}}),
            1.5);
  EXPECT_EQ(
      quota_of("0::/a/b\n", {{"a/b/cpu.max", "50000 100000"}, {"a/cpu.max", "150000 100000"}}),
      0.5);
  EXPECT_EQ(quota_of("0::/\n", {{"cpu.max", "max 100000"}}), std::nullopt);
  EXPECT_EQ(quota_of("0::/a\n", {{"a/cpu.max", "nonsense"}}), std::nullopt);
  EXPECT_EQ(quota_of("", {}), std::nullopt);
}

TEST(CpuQuota, OfTheFirstVersionCountsToo) {
  const std::string lines = "5:memory:/m\n2:cpu,cpuacct:/docker/x\n0::/\n";
  const auto files = [](const std::string& folder, const std::string& quota) {
    return std::vector<std::pair<std::string, std::string>>{
        {folder + "/cpu.cfs_quota_us", quota}, {folder + "/cpu.cfs_period_us", "100000"}};
  };
  EXPECT_EQ(quota_of(lines, files("cpu,cpuacct/docker/x", "250000")), 2.5);
  EXPECT_EQ(quota_of(lines, files("cpu", "250000")), 2.5) << "the container's group is the root";
  EXPECT_EQ(quota_of(lines, files("cpu,cpuacct/docker/x", "-1")), std::nullopt);
  EXPECT_EQ(quota_of(lines, files("memory/m", "250000")), std::nullopt);
}

}  // namespace
}  // namespace ddprun
