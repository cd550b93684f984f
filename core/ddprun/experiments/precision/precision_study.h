// The kind of experiment that shows what a precision does to numbers: a sum of many addends, and
// the dtypes that autocast gives a model's tensors.
#pragma once

#include "ddprun/config/runnable_kind.h"

namespace ddprun {

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
