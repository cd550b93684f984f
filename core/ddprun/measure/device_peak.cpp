// Peaks from NVIDIA's data sheets.
#include "ddprun/measure/device_peak.h"

#include <algorithm>
#include <array>

namespace ddprun {

namespace {

/// TFLOP/s. The sheets give tensor cores' figures with sparsity; dense is half of that. On all of
/// these devices tf32 is half of bfloat16, float16 is equal to it, and float8, where there is any,
/// is twice it.
struct Model {
  const char* name;  ///< as CUDA gives it, without "NVIDIA "
  double bfloat16;
  double float32;  ///< without tensor cores
  bool has_float8;
};

constexpr std::array<Model, 10> kModels = {{
    {"A100-SXM4-40GB", 312, 19.5, false},
    {"A100-SXM4-80GB", 312, 19.5, false},
    {"A100-PCIE-40GB", 312, 19.5, false},
    {"A100 80GB PCIe", 312, 19.5, false},
    {"H100 80GB HBM3", 989, 67, true},  // the SXM module
    {"H100 PCIe", 756, 51, true},
    {"H100 NVL", 835, 60, true},
    {"H200", 989, 67, true},
    {"H200 NVL", 835, 60, true},
    {"B200", 2250, 75, true},
}};

double tflops(const Model& model, const std::string& dtype) {
  if (dtype == "float32") return model.float32;
  if (dtype == "tf32") return model.bfloat16 / 2;
  if (dtype == "bfloat16" || dtype == "float16") return model.bfloat16;
  if (dtype == "float8" && model.has_float8) return model.bfloat16 * 2;
  return 0;
}

}  // namespace

DevicePeak device_peak(const std::string& device_name, const std::string& dtype) {
  if (device_name.empty()) return {0, "the peak of a CPU is not given by its maker"};
  const std::string maker = "NVIDIA ";
  const std::string name =
      device_name.starts_with(maker) ? device_name.substr(maker.size()) : device_name;
  const auto* const model = std::ranges::find(kModels, name, &Model::name);
  if (model == kModels.end()) return {0, "the peak of \"" + device_name + "\" is not known"};
  const double peak = tflops(*model, dtype);
  if (peak == 0) return {0, "\"" + device_name + "\" has no peak for " + dtype};
  return {peak * 1e12};
}

}  // namespace ddprun
