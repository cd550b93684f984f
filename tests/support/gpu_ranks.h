// Ranks on GPUs: one each where there are several, else two that share the only one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ddprun/comm/process_group.h"
#include "ddprun/device/device_library.h"
#include "ddprun/train/emulated_ranks.h"

namespace ddprun::test {

/// Tests that are skipped, with the reason, where there is no GPU. Everything that touches the
/// driver happens in forked ranks, as in a run: the probe leaves this process fit for that.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    probe_ = probe_device("cuda");
    if (probe_.count == 0) GTEST_SKIP() << probe_.refusal.what << ": " << probe_.refusal.got;
  }

  DeviceProbe probe_;
};

/// `ranks`: so many share the first GPU; 0: one a GPU, or two that share it if there is one.
inline WorldConfig gpu_world(int gpus, int ranks = 0) {
  WorldConfig world;
  world.device = "cuda";
  world.size = ranks > 0 ? ranks : gpus > 1 ? gpus : 2;
  world.emulate_ranks_on_one_gpu = ranks > 0 || gpus < 2;
  return world;
}

/// Words that set a gpu_world() in an experiment, on the kernels that there are.
inline std::vector<std::string> set_gpu_world(const WorldConfig& world) {
  return {"--set",
          "world.device=cuda",
          "--set",
          "model.kernels=reference",
          "--set",
          "world.size=" + std::to_string(world.size),
          "--set",
          std::string("world.emulate_ranks_on_one_gpu=") +
              (world.emulate_ranks_on_one_gpu ? "true" : "false")};
}

/// `ddprun COMMAND FILE` in a gpu_world().
inline std::vector<std::string> gpu_command(const std::string& command, const std::string& file,
                                            const WorldConfig& world) {
  std::vector<std::string> words = {command, file};
  const auto set = set_gpu_world(world);
  words.insert(words.end(), set.begin(), set.end());
  return words;
}

}  // namespace ddprun::test
