// The backends of sdpa: each computes the same, and what PyTorch would not run is refused.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/plugin/run_description.h"
#include "support/matchers.h"
#include "support/plugin_library.h"
#include "support/plugin_registry.h"

namespace ddprun {
namespace {

std::shared_ptr<Attention> sdpa(const std::string& backend) {
  return make_attention(
      test::registry(),
      test::choice_of(PluginKind::attention, "{name: sdpa, backend: " + backend + "}"));
}

TEST(Sdpa, EveryBackendOfTheCpuComputesTheSameAndLeavesThePick) {
  const at::Tensor x = at::randn({2, 3, 70, 16});
  const at::Tensor automatic = sdpa("auto")->forward(x, x, x, {.causal = true});
  const at::Tensor flash = sdpa("flash")->forward(x, x, x, {.causal = true});
  const at::Tensor math = sdpa("math")->forward(x, x, x, {.causal = true});
  EXPECT_TRUE(at::equal(flash, automatic)) << "on a CPU PyTorch picks flash";
  EXPECT_TRUE(at::allclose(math, automatic, 1e-4, 1e-5));
  EXPECT_FALSE(at::equal(math, automatic)) << "another kernel rounds otherwise";
  EXPECT_TRUE(at::globalContext().userEnabledFlashSDP());
  EXPECT_TRUE(at::globalContext().userEnabledMathSDP());
}

TEST(Sdpa, WhatPyTorchWouldNotRunIsRefused) {
  RunDescription run;
  for (const char* backend : {"efficient", "cudnn"}) {
    run.device = DeviceKind::cpu;
    EXPECT_THAT(words_of(sdpa(backend)->unsupported(run)), HasSubstr("on GPUs alone"));
    run.device = DeviceKind::cuda;
    EXPECT_EQ(words_of(sdpa(backend)->unsupported(run)), "");
  }
  const at::Tensor x = at::randn({1, 1, 4, 8});
  EXPECT_ANY_THROW(sdpa("cudnn")->forward(x, x, x, {.causal = true}));
}

}  // namespace
}  // namespace ddprun
