// The kind of experiment that trains: what it measures in each step, and the figures of a run, in
// the order of the table. A new quantity is one declaration here.
//
// Family: training.cpp training_check.cpp training_rank.cpp run_rank.cpp
#pragma once

#include "ddprun/config/runnable_kind.h"
#include "ddprun/experiments/training/scaling.h"
#include "ddprun/result/row_runs.h"

namespace ddprun {

struct Training : RunnableKind {
  /// Overlap below this share of the communication is noise of the clocks, not overlap.
  static constexpr double kObservedOverlap = 0.01;

  std::string in_short(const RunStatistics& run) const override;
  /// The fastest row beside its base, the communication that overlap hides, what a precision gains,
  /// the efficiency at the most ranks, and how far runs of one row differ. Rows that were not
  /// proved, or diverged, are in none.
  std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const override;
  void check(const Experiment& experiment) const override;
  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context) const override;
  nlohmann::json verify_rank(const Experiment& experiment, const PluginRegistry& registry,
                             const RunContext& context) const override;
  void check_lockstep(const Experiment& leads, const Experiment& follows,
                      const PluginRegistry& registry) const override;
  nlohmann::json lockstep_rank(const Experiment& experiment, const PluginRegistry& registry,
                               const RunContext& context, const LockstepPart& part) const override;

  const Quantity& step_ms = declare("step_ms", "ms",
                                    "from the end of the barrier to parameters updated, gradients "
                                    "unset; or to where `train.measure` ends it",
                                    {.over_ranks = OverRanks::max,
                                     .title = "step ms",
                                     .spread = true,
                                     .remark = "a step is as slow as its slowest rank"});
  const Quantity& forward_ms = declare(
      "forward_ms", "ms",
      "from asking for a micro-batch to its loss, without waiting for collectives; sum over the M",
      {.title = "forward", .drop_order = 8});
  const Quantity& backward_ms =
      declare("backward_ms", "ms",
              "from the loss to the last gradient of the micro-batch on this rank; sum over the M; "
              "not there with `train.measure: forward`",
              {.optional = true, .title = "backward", .drop_order = 5});
  const Quantity& synchronize_ms =
      declare("synchronize_ms", "ms",
              "from that moment to every gradient averaged over the ranks, without updates in "
              "between, and what the rank waits for collectives in the other parts of the step; "
              "sum over the M; not there with `train.measure: forward`",
              {.optional = true});
  const Quantity& exposed_ms =
      declare("exposed_ms", "ms",
              "the least of the ranks' waits for each collective of the step, summed, and the "
              "least of what else `synchronize_ms` has; the same on all ranks",
              {.optional = true,
               .title = "exposed",
               .remark = "communication that nothing hid, without skew"});
  const Quantity& skew_ms =
      declare("skew_ms", "ms", "`synchronize_ms` - `exposed_ms`",
              {.optional = true,
               .title = "skew",
               .drop_order = 1,
               .remark = "what ranks waited for a slower one to finish computing"});
  const Quantity& exposed_share =
      declare("exposed_share", "fraction", "exposed / step, of each run",
              {.follows = find_exposed_share,
               .title = "exposed %",
               .drop_order = 2,
               .text = text_as("{:.1f}", 100)});
  const Quantity& link_ms =
      declare("link_ms", "ms",
              "what the rank would wait if nothing but the [link](#what-limits-a-step) took time: "
              "the step's calls and waits, replayed; from the second step on",
              {.optional = true});
  const Quantity& link_earliest_ms = declare(
      "link_earliest_ms", "ms",
      "the same, if each collective had been asked for when its forward, backward or update began",
      {.optional = true});
  const Quantity& link_latency_ms =
      declare("link_latency_ms", "ms", "what of `link_ms` would be gone without latency",
              {.optional = true});
  const Quantity& overlapped_ms = declare(
      "overlapped_ms", "ms",
      "the part of `communication_ms` before the last gradient for which the rank did not wait");
  const Quantity& overlapped_share =
      declare("overlapped_share", "fraction", "mean `overlapped_ms` / mean `communication_ms`",
              {.follows = find_overlapped_share,
               .title = "overlapped",
               .drop_order = 3,
               .text = overlap_text,
               .remark = "the share of the communication that ran while gradients were still "
                         "computed. *no*: below 1 %, not observed. –: no communication"});
  const Quantity& communication_ms =
      declare("communication_ms", "ms",
              "length of the union of the intervals [start, end] of the step's collectives, the "
              "wait for ranks that come later included",
              {.title = "communication", .drop_order = 11});
  const Quantity& launch_delay_ms =
      declare("launch_delay_ms", "ms",
              "from asking for a collective to its start; mean over the step's collectives",
              {.title = "launch delay", .drop_order = 12});
  const Quantity& contention_ms = declare(
      "contention_ms", "ms",
      "backward of this row - backward of a row that does the same work (all keys but `name` and "
      "`strategy` equal) without a collective, such as `none`",
      {.compares = find_contention,
       .title = "contention",
       .drop_order = 13,
       .text = text_as("{:+.1f}"),
       .remark =
           "what communication takes from computing. –: there is no such row, or this is it"});
  const Quantity& optimizer_ms = declare(
      "optimizer_ms", "ms",
      "from every gradient averaged to the end of the step: clipping, update, zeroing; and updates "
      "before that moment (`optimizer.overlap`); there with `train.measure: step` alone",
      {.optional = true, .title = "optimizer", .drop_order = 9});
  const Quantity& host_ms =
      declare("host_ms", "ms",
              "from the first call of the step to the return of its last one, which a GPU works "
              "behind; not there on the CPU, whose step it is",
              {.optional = true, .title = "host", .drop_order = 10});
  const Quantity& host_forward_ms = declare(
      "host_forward_ms", "ms", "the same of forward; sum over the M; not there in a replayed step",
      {.optional = true});
  const Quantity& host_backward_ms =
      declare("host_backward_ms", "ms", "the same of backward", {.optional = true});
  const Quantity& cpu_ms =
      declare("cpu_ms", "ms", "CPU time of all threads of the rank within the step");
  const Quantity& cpu_outside_ms = declare("cpu_outside_ms", "ms",
                                           "the same from the end of the step before to the begin "
                                           "of this one, checks and evaluation not counted");
  const Quantity& tokens_per_s = declare(
      "tokens_per_s", "tokens/s", "global batch x context length / median step",
      {.follows = find_tokens_per_s, .title = "tokens/s", .drop_order = 4, .text = thousands_text});
  const Quantity& s_per_million_tokens = declare(
      "s_per_million_tokens", "s", "10^6 / tokens/s: how long training on a million tokens takes",
      {.follows = find_s_per_million_tokens,
       .title = "s/1M tokens",
       .drop_order = 16,
       .text = text_as("{:.1f}")});
  const Quantity& tflops =
      declare("tflops", "TFLOP/s",
              "10^-12 x F x tokens/s / R, of one rank; F: FLOPs a token, [below](#flops)",
              {.follows = find_tflops, .title = "TFLOP/s", .drop_order = 14, .text = tflops_text});
  const Quantity& mfu = declare(
      "mfu", "fraction",
      "TFLOP/s / the dense peak of the device's matrix products in this precision. –: no peak is "
      "known; a line below the table says why",
      {.follows = find_mfu, .title = "MFU", .drop_order = 3, .text = text_as("{:.1f} %", 100)});
  const Quantity& peak_memory =
      declare("peak_memory_bytes", "bytes",
              "the highest `peak_allocated_bytes` of all ranks and phases of a step, and the phase "
              "([profiling.md](profiling.md)). –: there was no warm-up step",
              {.follows = find_peak_memory,
               .title = "peak memory",
               .drop_order = 15,
               .timed = false,
               .text = text_as("{:.1f} MB", 1e-6)});
  const Quantity& samples_per_s =
      declare("samples_per_s", "sequences/s", "global batch (sequences) / median step",
              {.follows = find_samples_per_s,
               .title = "samples/s",
               .drop_order = 10,
               .text = text_as("{:.1f}")});
  const Quantity& busbw_gb_per_s = declare(
      "busbw_gb_per_s", "GB/s",
      "bus bandwidth, as nccl-tests defines it: [bytes on the wire](#bytes-on-the-wire) of the "
      "step's collectives / the length of the union of their intervals, each cut to the shortest "
      "of its ranks: without the wait for peers; not there if nothing was on the wire",
      {.optional = true, .title = "busbw", .drop_order = 12, .text = text_as("{:.2f}")});
  const Quantity& bytes = declare("bytes", "bytes",
                                  "payload of the step's collectives on this rank: elements x "
                                  "element size of the whole tensors",
                                  {.written = Written::integer,
                                   .over_steps = OverSteps::mean,
                                   .title = "MB/step",
                                   .drop_order = 6,
                                   .timed = false,
                                   .text = text_as("{:.2f}", 1e-6),
                                   .remark = "the table has 10^6 bytes"});
  const Quantity& collectives = declare("collectives", "", "collectives of the step on this rank",
                                        {.written = Written::integer,
                                         .over_steps = OverSteps::mean,
                                         .title = "collectives",
                                         .drop_order = 7,
                                         .timed = false,
                                         .text = count_text});
  const Quantity& loss = declare("loss", "", "mean over this rank's micro-batches",
                                 {.over_steps = OverSteps::ends,
                                  .title = "loss",
                                  .drop_order = 1,
                                  .timed = false,
                                  .text = text_as("{:.3f}"),
                                  .if_not_finite = "a lower optimizer.lr, or clipping"});
  const Quantity& validation_loss =
      declare("validation_loss", "",
              "mean over this rank's share of the held-out batches, by the parameters after the "
              "step; in the steps that `train.eval` follows",
              {.optional = true,
               .over_steps = OverSteps::ends,
               .title = "val. loss",
               .drop_order = 1,
               .timed = false,
               .text = text_as("{:.3f}"),
               .if_not_finite = "a lower optimizer.lr, or clipping"});
  const Quantity& bits_per_byte =
      declare("bits_per_byte", "bits",
              "`validation_loss` / ln 2 / bytes of text of a target, of which a tokenizer's "
              "special tokens have none; of text, and of tokens with `data.tokenizer`",
              {.optional = true,
               .over_steps = OverSteps::ends,
               .title = "bits/byte",
               .drop_order = 2,
               .timed = false,
               .text = text_as("{:.3f}")});
  const Quantity& consensus_distance = declare(
      "consensus_distance", "fraction",
      "root mean square over the ranks of the norm of this rank's parameters - their mean / norm "
      "of the mean; in the steps that `train.eval` follows, with strategies whose ranks differ",
      {.optional = true,
       .over_steps = OverSteps::ends,
       .title = "distance %",
       .drop_order = 2,
       .timed = false,
       .text = text_as("{:.2f}", 100)});
  const Quantity& error_feedback =
      declare("error_feedback", "fraction",
              "norm of what this rank has not sent yet of its gradients / norm of the gradients "
              "that the step updated with; with strategies that compress",
              {.optional = true,
               .title = "error feedback",
               .drop_order = 1,
               .timed = false,
               .text = text_as("{:.2f}")});
  const Quantity& gradient_norm =
      declare("gradient_norm", "",
              "global norm before clipping; not there where it was not computed: with "
              "`optimizer.clip_norm` 0, or in a skipped step",
              {.optional = true, .timed = false});
  const Quantity& lost_updates =
      declare("lost_updates", "%",
              "the share of the model's weights that the step had to move and that "
              "[rounding](#lost-updates) left as they were; in the steps that are looked at",
              {.optional = true, .over_steps = OverSteps::ends, .timed = false});
  const Quantity& skipped =
      declare("skipped", "",
              "whether the precision kept this step from updating the parameters, as one that "
              "scales the loss does when gradients overflow",
              {.written = Written::boolean,
               .over_ranks = OverRanks::max,
               .over_steps = OverSteps::count,
               .timed = false,
               .if_counted = "did not update the parameters"});
  const Quantity& first_step_done_s =
      declare("first_step_done_s", "s",
              "max over r of the time from the start of the process to the end of the first step "
              "(of a later row: from the start of its ranks)",
              {.follows = find_first_step_done_s});
  const Quantity& speed_up =
      declare("speed_up", "",
              "median step of the row's [base](configuration.md#what-speed-up-counts-from) / "
              "median step of this row",
              {.compares = ddprun::speed_up,
               .title = "speed-up",
               .text = text_as("{:.2f}x"),
               .remark = "the line below the table says what the base is. –: it was not measured. "
                         "Without a sweep there is no such column"});
  const Quantity& time_difference =
      declare("time_difference", "fraction",
              "step of this row / step of its base - 1: 0.019 is 1.9 % more time",
              {.compares = ddprun::time_difference});
  const Quantity& strong_efficiency =
      declare("strong_efficiency", "fraction",
              "R0 x T0 / (R x T): the step times T, and ranks R, of this row and (0) of [the same "
              "work](#scaling) on the fewest ranks",
              {.compares = [](const RunStatistics& run,
                              const auto& runs) { return efficiency(run, runs, Scaling::strong); },
               .title = "strong eff.",
               .drop_order = 2,
               .text = text_as("{:.1f} %", 100)});
  const Quantity& weak_efficiency = declare(
      "weak_efficiency", "fraction",
      "T0 / T, of this row and (0) of [the same work per rank](#scaling) on the fewest ranks",
      {.compares = [](const RunStatistics& run,
                      const auto& runs) { return efficiency(run, runs, Scaling::weak); },
       .title = "weak eff.",
       .drop_order = 2,
       .text = text_as("{:.1f} %", 100)});

 protected:
  explicit Training(KindFile file);

 private:
  static Figure find_exposed_share(const RunStatistics& run);
  static Figure find_overlapped_share(const RunStatistics& run);
  static Figure find_contention(const RunStatistics& run,
                                const std::vector<const RunStatistics*>& runs);
  static Figure find_tokens_per_s(const RunStatistics& run);
  static Figure find_s_per_million_tokens(const RunStatistics& run);
  static Figure find_samples_per_s(const RunStatistics& run);
  static Figure find_tflops(const RunStatistics& run);
  static Figure find_mfu(const RunStatistics& run);
  static Figure find_peak_memory(const RunStatistics& run);
  static Figure find_first_step_done_s(const RunStatistics& run);
  static std::string overlap_text(double share);
  static std::string thousands_text(double value);
  static std::string tflops_text(double value);
  static std::string count_text(double value);
};

const Training& training();

}  // namespace ddprun
