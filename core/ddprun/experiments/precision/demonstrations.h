// What is demonstrated: one number added many times, in two ways that must agree, as a PyTorch
// user's loop does it and by C++'s scalars; and which dtype each tensor of a small model has under
// autocast, read off the tensors. The YAML section `demonstration:` says which.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

class Options;

enum class Demonstration : std::uint8_t {
  accumulation,  ///< one number added many times
  dtypes,        ///< the dtypes of a small model's tensors under autocast
};
constexpr auto choice_names(Demonstration) { return std::array{"accumulation", "dtypes"}; }

/// The type of the addends, and of the sum that they are added to.
enum class SumTypes : std::uint8_t {
  float32,
  float16,
  float16_to_float32,            ///< float16 addends, a float32 sum
  converted_float16_to_float32,  ///< the same, each addend converted to float32 before
};
constexpr auto choice_names(SumTypes) {
  return std::array{"float32", "float16", "float16_to_float32", "converted_float16_to_float32"};
}

/// What autocast casts to.
enum class AutocastType : std::uint8_t { float16, bfloat16 };
constexpr auto choice_names(AutocastType) { return std::array{"float16", "bfloat16"}; }

struct DemonstrationConfig {
  Demonstration name = Demonstration::accumulation;
  SumTypes sum = SumTypes::float32;
  double addend = 0.01;
  std::int64_t count = 1000;
  AutocastType autocast = AutocastType::float16;
};

void declare_options(Options& options, DemonstrationConfig& config);  // in precision_study.cpp

/// What came of it, in float64, which holds every number of the smaller types.
struct Accumulated {
  double sum = 0;
  double addend = 0;  ///< what the addend was rounded to
};

/// By a loop over ATen's operators on scalars () that lie on `device`, as in CS336's assignment on
/// mixed precision: sum += addend.
Accumulated accumulate_by_tensors(const DemonstrationConfig& config, c10::Device device);

/// By scalar arithmetic: each sum is rounded once, to the nearest number of its type.
Accumulated accumulate_by_scalars(const DemonstrationConfig& config);

/// A forward under autocast and a backward, of CS336's ToyModel: fc1 without bias, ReLU, LayerNorm,
/// fc2 without bias, then the cross-entropy of its logits.
struct AutocastDtypes {
  /// Each tensor and its dtype, in the order of the model: "parameters", "fc1", ... "gradients".
  std::vector<std::pair<std::string, std::string>> tensors;
  bool finite = false;       ///< all outputs and gradients
  bool fc1_by_hand = false;  ///< fc1's output is that of operands cast by hand, bit for bit
};

AutocastDtypes measure_autocast(AutocastType type, c10::Device device);

}  // namespace ddprun
