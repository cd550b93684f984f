// The kind of experiment that measures one collective at one size: its quantities, and the line
// that is fitted through the sizes.
#pragma once

#include "ddprun/config/runnable_kind.h"
#include "ddprun/result/row_runs.h"

namespace ddprun {

struct Collectives final : RunnableKind {
  Collectives();
  std::string in_short(const RunStatistics& run) const override;
  std::vector<std::pair<std::string, std::string>> facts(const Run& run) const override;
  std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const override;
  void check(const Experiment& experiment) const override;
  std::optional<Account> check_machine(const Experiment& experiment, const PluginRegistry& registry,
                                       std::int64_t local_ranks) const override;
  nlohmann::json work(const Experiment& experiment, const PluginRegistry& registry) const override;
  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context) const override;

  const Quantity& time_us = declare("time_us", "µs",
                                    "from the end of the second barrier that follows the filling "
                                    "of the buffers to the result, on this rank",
                                    {.over_ranks = OverRanks::max,
                                     .title = "time µs",
                                     .spread = true,
                                     .remark = "a collective is as slow as its slowest rank"});
  const Quantity& size =
      declare("size", "bytes", "bytes of the whole tensor, as nccl-tests counts them",
              {.of_work = "bytes",
               .title = "size",
               .drop_order = 4,
               .timed = false,
               .text = text_as("{:.0f}")});
  const Quantity& count = declare(
      "count", "", "elements of what one rank sends or gets: of a slice, where there are slices",
      {.of_work = "count",
       .title = "count",
       .drop_order = 9,
       .timed = false,
       .text = text_as("{:.0f}")});
  const Quantity& mean_us = time_over("mean_us", OverSteps::mean, "mean", 7);
  const Quantity& std_us = time_over("std_us", OverSteps::std, "std", 8);
  const Quantity& p99_us = time_over("p99_us", OverSteps::p99, "p99", 5);
  const Quantity& algbw_gb_per_s = declare(
      "algbw_gb_per_s", "GB/s", "size / median time. –: a barrier has none",
      {.follows = find_algbw, .title = "algbw", .drop_order = 3, .text = text_as("{:.3g}")});
  const Quantity& busbw_gb_per_s = declare(
      "busbw_gb_per_s", "GB/s",
      "[bytes on the wire](#bytes-on-the-wire) / median time. –: a barrier has none",
      {.follows = find_busbw, .title = "busbw", .drop_order = 2, .text = text_as("{:.3g}")});
  const Quantity& wrong =
      declare("wrong", "",
              "elements of this rank's result that are not what they must be, all of them "
              "compared; of a barrier whether this rank left it before another one came. In the "
              "first sample and the last: the others have none",
              {.written = Written::integer,
               .optional = true,
               .over_ranks = OverRanks::sum,
               .over_steps = OverSteps::sum,
               .title = "#wrong",
               .timed = false,
               .text = text_as("{:.0f}")});
  const Quantity& samples = declare(number_of_calls(time_us, 6));
  const Quantity& ranks_per_core =
      declare("ranks_per_core", "", "ranks of this host / the cores that they may use together",
              {.over_ranks = OverRanks::max, .timed = false});
  const Quantity& speed_up = declare(speed_up_of_calls());

 private:
  const Quantity& time_over(const char* key, OverSteps over_steps, const char* title,
                            int drop_order);
  static Figure find_algbw(const RunStatistics& run);
  static Figure find_busbw(const RunStatistics& run);
};

const Collectives& collectives();

}  // namespace ddprun
