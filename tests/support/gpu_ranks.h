// Ranks on GPUs: one GPU each where there are several, else two ranks on the only GPU.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "ddprun/base/own_library.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/device/device_library.h"
#include "ddprun/rank/emulated_ranks.h"
#include "support/ddprun_command.h"
#include "support/process_ranks.h"

namespace ddprun::test {

/// Tests that are skipped, with the reason, where there is no GPU. As in a run, only forked ranks
/// touch the driver. The probe runs in a child too, so this process can still fork them.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(own_library_file("cuda"))) {
      GTEST_SKIP() << "CUDA support is not built";
    }
    probe_ = probe_device(DeviceKind::cuda);
    if (probe_.count == 0) GTEST_SKIP() << probe_.refusal.what << ": " << probe_.refusal.got;
  }

  /// Runs `body` in a process that has GPU 0.
  static void on_gpu(const std::function<void(const at::TensorOptions&)>& body) {
    const auto ends = run_process_ranks(1, [&](const RankInfo&) {
      const auto device = open_device(DeviceKind::cuda, 0);
      body(at::TensorOptions(device->torch_device()).dtype(at::kFloat));
      return 0;
    });
    EXPECT_THAT(ends, Each(0));
  }

  DeviceProbe probe_;
};

/// `ranks` ranks share the first GPU. If `ranks` is 0, each GPU gets one rank, or the only GPU gets
/// two.
inline WorldConfig gpu_world(int gpus, int ranks = 0) {
  WorldConfig world;
  world.device = DeviceKind::cuda;
  world.size = ranks > 0 ? ranks : gpus > 1 ? gpus : 2;
  world.emulate_ranks_on_one_gpu = ranks > 0 || gpus < 2;
  return world;
}

/// Ends this rank with status 3 when NCCL has sent its part of what is over for this rank: its
/// proxies may still be sending, and the other ranks are to fail in the next collective alone.
[[noreturn]] inline void die_later() {
  ::sleep(1);
  ::_exit(3);
}

/// `ddprun COMMAND FILE` in a gpu_world(), with the kernels that GPUs have.
inline Words gpu_command(const std::string& command, const std::string& file,
                         const WorldConfig& world) {
  const char* const emulate = world.emulate_ranks_on_one_gpu ? "true" : "false";
  return with_sets({command, file}, {"world.device=cuda", "model.kernels=reference",
                                     "world.size=" + std::to_string(world.size),
                                     std::string("world.emulate_ranks_on_one_gpu=") + emulate});
}

/// `ddprun run gpu.yaml` with a rank on each of so many GPUs, by the kernels that there are.
inline Words run_on_each(int gpus) {
  return with_sets({"run", "gpu.yaml"}, {"world.device=cuda", "model.kernels=reference",
                                         "world.size=" + std::to_string(gpus)});
}

}  // namespace ddprun::test
