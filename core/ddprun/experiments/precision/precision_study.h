// The kind of experiment that shows what a precision does to numbers: a sum of many addends, and
// the dtypes that autocast gives a model's tensors. The YAML section `demonstration:` says which.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/runnable_kind.h"

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

struct PrecisionStudy final : RunnableKind {
  PrecisionStudy();
  std::string in_short(const RunStatistics& run) const override;
  std::vector<std::pair<std::string, std::string>> facts(const Run& run) const override;
  std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const override;
  void check(const Experiment& experiment) const override;
  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context) const override;

  const Quantity& time_us =
      declare("time_us", "µs", "of the whole demonstration, which is no benchmark");
  const Quantity& sum =
      declare("sum", "", "of accumulation: what the additions gave",
              {.optional = true, .title = "sum", .timed = false, .text = text_as("{:.7f}")});
  const Quantity& exact =
      declare("exact", "", "`demonstration.addend` x `demonstration.count`, in float64",
              {.optional = true,
               .title = "exact",
               .drop_order = 2,
               .timed = false,
               .text = text_as("{:.7g}")});
  const Quantity& error = error_of("error", "error", 0, "`sum` - `exact`");
  const Quantity& addends_error =
      error_of("addends_error", "of the addends", 1,
               "the error of adding the rounded addend without rounding any sum: the rounded "
               "addend x `demonstration.count` - `exact`");
  const Quantity& sums_error =
      error_of("sums_error", "of the sums", 1,
               "what rounding each sum adds to that: `error` - `addends_error`");

 private:
  const Quantity& error_of(const char* key, const char* title, int drop_order, const char* meaning);
};

const PrecisionStudy& precision_study();

}  // namespace ddprun
