// The kind of experiment that measures nothing: memory, computation and communication on paper.
#pragma once

#include "ddprun/config/runnable_kind.h"

namespace ddprun {

struct ArithmeticKind final : RunnableKind {
  ArithmeticKind();
  std::string in_short(const RunStatistics& run) const override;
  std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const override;
  void check(const Experiment& experiment) const override;
  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context) const override;

  const Quantity& time_us = declare(
      {.key = "time_us", .unit = "µs", .meaning = "of the arithmetic, which is no benchmark"});
  const Quantity& parameters = on_paper("parameters", "parameters, 1e9", "{:.2f}",
                                        "P, in 1e9: `layers` x `matrices` x `d_model` x `d_ff`", 0);
  const Quantity& state_gb =
      on_paper("state_gb", "state GB", "{:.1f}",
               "16 P: float32 masters, gradients and two moments, of all ranks together", 0);
  const Quantity& activations_gb = on_paper("activations_gb", "saved GB", "{:.1f}",
                                            "saved for backward, of all ranks together: `layers` x "
                                            "`tokens` x (`d_model` + `d_ff`) x `element_bytes`",
                                            0);
  const Quantity& devices =
      on_paper("devices", "devices", "{:.1f}",
               "(`state_gb` + `activations_gb`) / `memory_gb`: how many devices' worth", 2);
  const Quantity& rank_gb = on_paper(
      "rank_gb", "a rank GB", "{:.2f}",
      "of one rank: the state's part, the sharded activations' part, and the rest of them whole",
      0);
  const Quantity& fewest_ranks =
      on_paper("fewest_ranks", "ranks that fit", "{:.0f}",
               "the fewest for which that is below `memory_gb`; 0: no number is enough", 0);
  const Quantity& compute_ms = on_paper("compute_ms", "compute", "{:.3g}",
                                        "of a forward: 2 P `tokens` / ranks / `tflops`", 3);
  const Quantity& data_ms =
      on_paper("data_ms", "FSDP", "{:.3g}",
               "of a forward: the all-gathers of all weights over `data_ranks`", 3);
  const Quantity& tensor_ms =
      on_paper("tensor_ms", "TP", "{:.3g}",
               "of a forward: all-gather and reduce-scatter of each block over `tensor_ranks`", 3);
  const Quantity& overlapped_efficiency =
      on_paper("overlapped_efficiency", "overlapped %", "{:.1f}",
               "100 `compute_ms` / the longest of the three, which run at a time", 1);
  const Quantity& exposed_efficiency =
      on_paper("exposed_efficiency", "in turn %", "{:.1f}",
               "100 `compute_ms` / their sum: nothing overlaps", 1);
  const Quantity& least_tokens = on_paper("least_tokens", "tokens a rank", "{:.0f}",
                                          "the fewest of one rank with which no communication "
                                          "takes longer than computing; 0: no number is enough",
                                          0);
  const Quantity& least_batch =
      on_paper("least_batch", "tokens of all", "{:.0f}", "the same of all ranks together", 0);
  const Quantity& least_of_any_mesh =
      on_paper("least_of_any_mesh", "best mesh", "{:.1f}",
               "`least_tokens` where FSDP's and TP's ranks may be chosen: (C / W)² / (`data_links` "
               "x `tensor_links` x `d_ff`) with C operations and W bytes a second",
               2);
  const Quantity& most_data_ranks =
      on_paper("most_data_ranks", "most ranks", "{:.0f}",
               "of FSDP, with which the batch of `tokens` is not bound by communication", 2);

 private:
  const Quantity& on_paper(const char* key, const char* title, const char* format,
                           const char* meaning, int drop_order);
};

const ArithmeticKind& arithmetic();

}  // namespace ddprun
