// Peaks of devices by name, and refusals of all other names.
#include "ddprun/measure/device_peak.h"

#include "support/matchers.h"

namespace ddprun {
namespace {

TEST(DevicePeak, IsThatOfTheDataSheets) {
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H100 80GB HBM3", "bfloat16").flops, 989e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H100 80GB HBM3", "float16").flops, 989e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H100 80GB HBM3", "tf32").flops, 494.5e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H100 80GB HBM3", "float8").flops, 1978e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H100 80GB HBM3", "float32").flops, 67e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H100 PCIe", "bfloat16").flops, 756e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H100 NVL", "bfloat16").flops, 835e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA H200", "bfloat16").flops, 989e12);
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA B200", "bfloat16").flops, 2250e12);
  EXPECT_DOUBLE_EQ(device_peak("A100-SXM4-40GB", "bfloat16").flops, 312e12);  // older drivers
  EXPECT_DOUBLE_EQ(device_peak("NVIDIA A100 80GB PCIe", "float32").flops, 19.5e12);
  EXPECT_EQ(device_peak("NVIDIA B200", "float8").refusal, "");
}

TEST(DevicePeak, IsRefusedForWhateverElseThereIs) {
  for (const char* name : {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H20", "NVIDIA H2000",
                           "NVIDIA GeForce RTX 4090", "h200", "H200 of another maker"}) {
    const DevicePeak peak = device_peak(name, "bfloat16");
    EXPECT_EQ(peak.flops, 0) << name;
    EXPECT_THAT(peak.refusal, HasSubstr(name));
  }
  EXPECT_THAT(device_peak("", "float32").refusal, HasSubstr("CPU"));
  EXPECT_THAT(device_peak("NVIDIA A100-SXM4-80GB", "float8").refusal, HasSubstr("float8"));
  EXPECT_THAT(device_peak("NVIDIA H200", "int3").refusal, HasSubstr("int3"));
}

}  // namespace
}  // namespace ddprun
