// The kind of experiment that shows what a precision does to numbers: a sum of many addends, and
// the dtypes that autocast gives a model's tensors.
//
// Family: precision_study.cpp precision_rank.cpp
#pragma once

#include "ddprun/config/runnable_kind.h"

namespace ddprun {

struct PrecisionStudy final : RunnableKind {
  PrecisionStudy() : RunnableKind("precision") {}
  std::string in_short(const RunStatistics& run) const override;
  std::vector<std::pair<std::string, std::string>> facts(const Run& run) const override;
  std::string in_words(const std::string& check) const override;
  std::string table_note() const override;
  std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const override;

  const KindKeys& keys() const override;
  void check(const Experiment& experiment) const override;
  nlohmann::json work(const Experiment& experiment) const override;
  std::vector<RankResult> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                   const RunContext& context) const override;

  const Quantity& time_us =
      declare({.key = "time_us",
               .unit = "µs",
               .meaning = "of the whole demonstration, which is no benchmark"});
  const Quantity& sum = declare({.key = "sum",
                                 .optional = true,
                                 .title = "sum",
                                 .timed = false,
                                 .text = text_as("{:.7f}"),
                                 .meaning = "of accumulation: what the additions gave"});
  const Quantity& exact =
      declare({.key = "exact",
               .optional = true,
               .title = "exact",
               .drop_order = 2,
               .timed = false,
               .text = text_as("{:.7g}"),
               .meaning = "`demonstration.addend` x `demonstration.count`, in float64"});
  const Quantity& error = declare({.key = "error",
                                   .optional = true,
                                   .title = "error",
                                   .timed = false,
                                   .text = text_as("{:+.2e}"),
                                   .meaning = "`sum` - `exact`"});
  const Quantity& addends_error = declare(
      {.key = "addends_error",
       .optional = true,
       .title = "of the addends",
       .drop_order = 1,
       .timed = false,
       .text = text_as("{:+.2e}"),
       .meaning = "the error of adding the rounded addend without rounding any sum: the rounded "
                  "addend x `demonstration.count` - `exact`"});
  const Quantity& sums_error =
      declare({.key = "sums_error",
               .optional = true,
               .title = "of the sums",
               .drop_order = 1,
               .timed = false,
               .text = text_as("{:+.2e}"),
               .meaning = "what rounding each sum adds to that: `error` - `addends_error`"});
};

/// The one object of the kind.
const PrecisionStudy& precision_study();

}  // namespace ddprun
