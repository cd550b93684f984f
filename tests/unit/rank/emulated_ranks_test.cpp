// Ranks that share a GPU: the variables that NCCL sees, and what the user's contradict.
#include "ddprun/rank/emulated_ranks.h"

#include <c10/util/ScopeExit.h>
#include <stdlib.h>

#include <filesystem>
#include <set>

#include "ddprun/base/own_library.h"
#include "ddprun/device/device_library.h"
#include "support/matchers.h"
#include "support/process_ranks.h"

namespace ddprun::test {
namespace {

/// Sets a variable of the environment for as long as what it returns lives.
[[nodiscard]] auto with_variable(const char* name, const char* value) {
  ::setenv(name, value, 1);
  return c10::make_scope_exit([name] { ::unsetenv(name); });
}

std::string refusal() {
  return error_of<ConfigError>([] { check_emulation_environment("a.yaml:3:9"); });
}

WorldConfig shared_gpu(std::int64_t ranks) {
  WorldConfig world;
  world.size = ranks;
  world.device = DeviceKind::cuda;
  world.emulate_ranks_on_one_gpu = true;
  return world;
}

TEST(EmulatedRanks, EachSeemsToBeAloneOnItsHost) {
  std::set<std::string> hosts;
  for (int rank = 0; rank < 4; ++rank) {
    for (const auto& [name, value] : emulation_variables(rank)) {
      if (name == "NCCL_HOSTID") hosts.insert(value);
    }
  }
  EXPECT_EQ(hosts.size(), 4u);
}

TEST(EmulatedRanks, OneRankEmulatesNothing) {
  EXPECT_TRUE(shared_gpu(2).emulated());
  EXPECT_FALSE(shared_gpu(1).emulated());
}

TEST(EmulatedRanks, VariablesThatContradictAreRefused) {
  EXPECT_EQ(refusal(), "no error");
  {
    const auto host = with_variable("NCCL_HOSTID", "mine");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("contradicts"), HasSubstr("a.yaml:3:9"),
                                 HasSubstr("NCCL_HOSTID=mine"), HasSubstr("each rank")));
  }
  {
    const auto net = with_variable("NCCL_NET", "IB");
    EXPECT_THAT(refusal(), AllOf(HasSubstr("NCCL_NET=IB"), HasSubstr("NCCL_NET=Socket")));
  }
  const auto net = with_variable("NCCL_NET", "Socket");
  const auto interface = with_variable("NCCL_SOCKET_IFNAME", "eth0");
  EXPECT_EQ(refusal(), "no error");
}

/// In a rank's process, since NCCL's host id is for good: opens the device, or is refused for want
/// of one, and looks at the environment.
int opens_the_first_device(const RankInfo& info) {
  try {
    if (open_rank_device(shared_gpu(info.world_size), info)->torch_device().index() != 0) return 2;
  } catch (const std::exception&) {
    if (probe_device(DeviceKind::cuda).count > 0) return 3;
  }
  for (const auto& [name, value] : emulation_variables(info.rank)) {
    const char* set = ::getenv(name.c_str());
    if (set == nullptr || set != (name == "NCCL_SOCKET_IFNAME" ? "eth7" : value)) return 4;
  }
  return 0;
}

class OfADevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(own_library_file("cuda"))) GTEST_SKIP() << "not built";
  }
};

TEST_F(OfADevice, RanksTakeTheFirstAndTheUsersInterfaceStands) {
  const auto interface = with_variable("NCCL_SOCKET_IFNAME", "eth7");
  EXPECT_THAT(run_process_ranks(2, opens_the_first_device), Each(0));
}

/// The exit status of a rank's process that is refused in these words: 0.
int is_refused(const WorldConfig& world, const RankInfo& info, const char* words) {
  const std::string error = error_of<ConfigError>([&] { open_rank_device(world, info); });
  return error.find(words) == std::string::npos ? 1 : 0;
}

TEST_F(OfADevice, RanksOfSeveralHostsCannotShareIt) {
  const auto ends = run_process_ranks(1, [](const RankInfo&) {
    return is_refused(shared_gpu(4), {.world_size = 4, .local_size = 2}, "2 of 4 ranks");
  });
  EXPECT_THAT(ends, Each(0));
}

TEST_F(OfADevice, AProcessKeepsItsHost) {
  const auto ends = run_process_ranks(1, [](const RankInfo&) {
    const RankInfo rank{.world_size = 2, .local_size = 2};
    try {
      open_rank_device(shared_gpu(2), rank);
    } catch (const std::exception&) {  // no GPU here
    }
    WorldConfig own = shared_gpu(2);
    own.emulate_ranks_on_one_gpu = false;
    return is_refused(own, rank, "joined launch");
  });
  EXPECT_THAT(ends, Each(0));
}

}  // namespace
}  // namespace ddprun::test
