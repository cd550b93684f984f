// What an experiment of precision demonstrates: the YAML section `demonstration:`.
#pragma once

#include <array>
#include <cstdint>

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

void declare_options(Options& options, DemonstrationConfig& config);

}  // namespace ddprun
