// How much memory there is, on a machine and in containers of both versions of cgroups.
#include "ddprun/base/machine_memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/system_files.h"

namespace ddprun {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;
using Memory = std::pair<std::int64_t, std::int64_t>;  // total, available

const std::pair<std::string, std::string> kMachine = {
    "proc/meminfo", "MemTotal:  1000 kB\nMemFree: 5 kB\nMemAvailable:   800 kB\n"};

Memory memory_of(const std::string& lines, Files files) {
  const test::SystemFiles system(lines, files);
  return {total_memory(system.root()), available_memory(system.root())};
}

TEST(MachineMemory, IsTheMachinesWhereNothingLimitsIt) {
  const Memory machine = {1000 * 1024, 800 * 1024};
  EXPECT_EQ(memory_of("", {kMachine}), machine);
  EXPECT_EQ(memory_of("0::/a\n", {kMachine, {"sys/fs/cgroup/a/memory.max", "max\n"}}), machine);
}

TEST(MachineMemory, IsWhatTheLeastOfTheGroupsLeaves) {
  const Files files = {kMachine,
                       {"sys/fs/cgroup/a/memory.max", "500000\n"},
                       {"sys/fs/cgroup/a/memory.current", "300000\n"},
                       {"sys/fs/cgroup/a/memory.stat", "anon 200000\ninactive_file 90000\n"},
                       {"sys/fs/cgroup/a/b/memory.max", "max\n"}};
  EXPECT_EQ(memory_of("0::/a/b\n", files), Memory(500000, 500000 - (300000 - 90000)));
}

TEST(MachineMemory, OfTheFirstVersionCountsToo) {
  const std::string folder = "sys/fs/cgroup/memory/docker/x/";
  const Files files = {kMachine,
                       {folder + "memory.limit_in_bytes", "400000\n"},
                       {folder + "memory.usage_in_bytes", "450000\n"},
                       {folder + "memory.stat", "cache 1\ntotal_inactive_file 10000\n"}};
  EXPECT_EQ(memory_of("2:cpu:/y\n5:memory:/docker/x\n", files), Memory(400000, 0));
}

TEST(MachineMemory, HasNoLimitWhereNothingIsKnown) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(memory_of("", {}), Memory(kNone, kNone));
}

}  // namespace
}  // namespace ddprun
