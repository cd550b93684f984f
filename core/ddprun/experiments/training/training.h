// The kind of experiment that trains: what it measures in each step, and the figures of a run, in
// the order of the table. A new quantity is one declaration here.
//
// Family: training.cpp training_check.cpp checkpoint_check.cpp training_rank.cpp run_rank.cpp
#pragma once

#include "ddprun/config/runnable_kind.h"
#include "ddprun/result/speed_up.h"

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

  const Quantity& step_ms =
      declare({.key = "step_ms",
               .unit = "ms",
               .over_ranks = OverRanks::max,
               .title = "step ms",
               .spread = true,
               .meaning = "from the end of the barrier to parameters updated, gradients unset; or "
                          "to where `train.measure` ends it",
               .remark = "a step is as slow as its slowest rank"});
  const Quantity& forward_ms =
      declare({.key = "forward_ms",
               .unit = "ms",
               .title = "forward",
               .drop_order = 8,
               .meaning = "from asking for a micro-batch to its loss, without waiting for "
                          "collectives; sum over the M"});
  const Quantity& backward_ms =
      declare({.key = "backward_ms",
               .unit = "ms",
               .optional = true,
               .title = "backward",
               .drop_order = 5,
               .meaning = "from the loss to the last gradient of the micro-batch on this rank; sum "
                          "over the M; not there with `train.measure: forward`"});
  const Quantity& synchronize_ms =
      declare({.key = "synchronize_ms",
               .unit = "ms",
               .optional = true,
               .meaning = "from that moment to every gradient averaged over the ranks, without "
                          "updates in between, and what the rank waits for collectives in the "
                          "other parts of the step; sum over the M; not there with "
                          "`train.measure: forward`"});
  const Quantity& exposed_ms =
      declare({.key = "exposed_ms",
               .unit = "ms",
               .optional = true,
               .title = "exposed",
               .meaning = "the least of the ranks' waits for each collective of the step, summed, "
                          "and the least of what else `synchronize_ms` has; the same on all ranks",
               .remark = "communication that nothing hid, without skew"});
  const Quantity& skew_ms =
      declare({.key = "skew_ms",
               .unit = "ms",
               .optional = true,
               .title = "skew",
               .drop_order = 1,
               .meaning = "`synchronize_ms` - `exposed_ms`",
               .remark = "what ranks waited for a slower one to finish computing"});
  const Quantity& exposed_share = declare({.key = "exposed_share",
                                           .unit = "fraction",
                                           .follows = find_exposed_share,
                                           .title = "exposed %",
                                           .drop_order = 2,
                                           .text = text_as("{:.1f}", 100),
                                           .meaning = "exposed / step, two numbers of the table"});
  const Quantity& link_ms =
      declare({.key = "link_ms",
               .unit = "ms",
               .optional = true,
               .meaning = "what the rank would wait if nothing but the [link](#what-limits-a-step) "
                          "took time: the step's calls and waits, replayed; from the second step "
                          "on"});
  const Quantity& link_earliest_ms =
      declare({.key = "link_earliest_ms",
               .unit = "ms",
               .optional = true,
               .meaning = "the same, if each collective had been asked for when its forward, "
                          "backward or update began"});
  const Quantity& link_latency_ms =
      declare({.key = "link_latency_ms",
               .unit = "ms",
               .optional = true,
               .meaning = "what of `link_ms` would be gone without latency"});
  const Quantity& overlapped_ms =
      declare({.key = "overlapped_ms",
               .unit = "ms",
               .meaning = "the part of `communication_ms` before the last gradient for which the "
                          "rank did not wait"});
  const Quantity& overlapped_share =
      declare({.key = "overlapped_share",
               .unit = "fraction",
               .follows = find_overlapped_share,
               .title = "overlapped",
               .drop_order = 3,
               .text = overlap_text,
               .meaning = "mean `overlapped_ms` / mean `communication_ms`",
               .remark = "the share of the communication that ran while gradients were still "
                         "computed. *no*: below 1 %, not observed. –: no communication"});
  const Quantity& communication_ms =
      declare({.key = "communication_ms",
               .unit = "ms",
               .title = "communication",
               .drop_order = 11,
               .meaning = "length of the union of the intervals [start, end] of the step's "
                          "collectives, the wait for ranks that come later included"});
  const Quantity& launch_delay_ms =
      declare({.key = "launch_delay_ms",
               .unit = "ms",
               .title = "launch delay",
               .drop_order = 12,
               .meaning = "from asking for a collective to its start; mean over the step's "
                          "collectives"});
  const Quantity& contention_ms =
      declare({.key = "contention_ms",
               .unit = "ms",
               .compares = find_contention,
               .title = "contention",
               .drop_order = 13,
               .text = text_as("{:+.1f}"),
               .meaning = "backward of this row - backward of a row that does the same work (all "
                          "keys but `name` and `strategy` equal) without a collective, such as "
                          "`none`",
               .remark = "what communication takes from computing. –: there is no such row, or "
                         "this is it"});
  const Quantity& optimizer_ms =
      declare({.key = "optimizer_ms",
               .unit = "ms",
               .optional = true,
               .title = "optimizer",
               .drop_order = 9,
               .meaning = "from every gradient averaged to the end of the step: clipping, update, "
                          "zeroing; and updates before that moment (`optimizer.overlap`); there "
                          "with `train.measure: step` alone"});
  const Quantity& host_ms =
      declare({.key = "host_ms",
               .unit = "ms",
               .optional = true,
               .title = "host",
               .drop_order = 10,
               .meaning = "from the first call of the step to the return of its last one, which a "
                          "GPU works behind; not there on the CPU, whose step it is"});
  const Quantity& host_forward_ms =
      declare({.key = "host_forward_ms",
               .unit = "ms",
               .optional = true,
               .meaning = "the same of forward; sum over the M; not there in a replayed step"});
  const Quantity& host_backward_ms = declare({.key = "host_backward_ms",
                                              .unit = "ms",
                                              .optional = true,
                                              .meaning = "the same of backward"});
  const Quantity& cpu_ms =
      declare({.key = "cpu_ms",
               .unit = "ms",
               .meaning = "CPU time of all threads of the rank within the step"});
  const Quantity& cpu_outside_ms =
      declare({.key = "cpu_outside_ms",
               .unit = "ms",
               .meaning = "the same from the end of the step before to the begin of this one, "
                          "checks and evaluation not counted"});
  const Quantity& tokens_per_s =
      declare({.key = "tokens_per_s",
               .unit = "tokens/s",
               .follows = find_tokens_per_s,
               .title = "tokens/s",
               .drop_order = 4,
               .text = thousands_text,
               .meaning = "global batch x context length / median step"});
  const Quantity& s_per_million_tokens =
      declare({.key = "s_per_million_tokens",
               .unit = "s",
               .follows = find_s_per_million_tokens,
               .title = "s/1M tokens",
               .drop_order = 16,
               .text = text_as("{:.1f}"),
               .meaning = "10^6 / tokens/s: how long training on a million tokens takes"});
  const Quantity& tflops =
      declare({.key = "tflops",
               .unit = "TFLOP/s",
               .follows = find_tflops,
               .title = "TFLOP/s",
               .drop_order = 14,
               .text = tflops_text,
               .meaning = "10^-12 x F x tokens/s / R, of one rank; F: FLOPs a token, "
                          "[below](#flops)"});
  const Quantity& mfu =
      declare({.key = "mfu",
               .unit = "fraction",
               .follows = find_mfu,
               .title = "MFU",
               .drop_order = 3,
               .text = text_as("{:.1f} %", 100),
               .meaning = "TFLOP/s / the dense peak of the device's matrix products in this "
                          "precision. –: no peak is known; a line below the table says why"});
  const Quantity& peak_memory = declare(
      {.key = "peak_memory_bytes",
       .unit = "bytes",
       .follows = find_peak_memory,
       .title = "peak memory",
       .drop_order = 15,
       .timed = false,
       .text = text_as("{:.1f} MB", 1e-6),
       .meaning = "the highest `peak_allocated_bytes` of all ranks and phases of a step, "
                  "and the phase ([profiling.md](profiling.md)). –: there was no warm-up step"});
  const Quantity& samples_per_s = declare({.key = "samples_per_s",
                                           .unit = "sequences/s",
                                           .follows = find_samples_per_s,
                                           .title = "samples/s",
                                           .drop_order = 10,
                                           .text = text_as("{:.1f}"),
                                           .meaning = "global batch (sequences) / median step"});
  const Quantity& busbw_gb_per_s =
      declare({.key = "busbw_gb_per_s",
               .unit = "GB/s",
               .optional = true,
               .title = "busbw",
               .drop_order = 12,
               .text = text_as("{:.2f}"),
               .meaning = "bus bandwidth, as nccl-tests defines it: [bytes on the "
                          "wire](#bytes-on-the-wire) of the step's collectives / the length of "
                          "the union of their intervals, each cut to the shortest of its ranks: "
                          "without the wait for peers; not there if nothing was on the wire"});
  const Quantity& bytes =
      declare({.key = "bytes",
               .unit = "bytes",
               .written = Written::integer,
               .over_steps = OverSteps::mean,
               .title = "MB/step",
               .drop_order = 6,
               .timed = false,
               .text = text_as("{:.2f}", 1e-6),
               .meaning = "payload of the step's collectives on this rank: elements x element size "
                          "of the whole tensors",
               .remark = "the table has 10^6 bytes"});
  const Quantity& collectives = declare({.key = "collectives",
                                         .written = Written::integer,
                                         .over_steps = OverSteps::mean,
                                         .title = "collectives",
                                         .drop_order = 7,
                                         .timed = false,
                                         .text = count_text,
                                         .meaning = "collectives of the step on this rank"});
  const Quantity& loss = declare({.key = "loss",
                                  .over_steps = OverSteps::ends,
                                  .title = "loss",
                                  .drop_order = 1,
                                  .timed = false,
                                  .text = text_as("{:.3f}"),
                                  .meaning = "mean over this rank's micro-batches",
                                  .if_not_finite = "a lower optimizer.lr, or clipping"});
  const Quantity& validation_loss =
      declare({.key = "validation_loss",
               .optional = true,
               .over_steps = OverSteps::ends,
               .title = "val. loss",
               .drop_order = 1,
               .timed = false,
               .text = text_as("{:.3f}"),
               .meaning = "mean over this rank's share of the held-out batches, by the parameters "
                          "after the step; in the steps that `train.eval` follows",
               .if_not_finite = "a lower optimizer.lr, or clipping"});
  const Quantity& bits_per_byte =
      declare({.key = "bits_per_byte",
               .unit = "bits",
               .optional = true,
               .over_steps = OverSteps::ends,
               .title = "bits/byte",
               .drop_order = 2,
               .timed = false,
               .text = text_as("{:.3f}"),
               .meaning = "`validation_loss` / ln 2, of data whose tokens are bytes"});
  const Quantity& error_feedback =
      declare({.key = "error_feedback",
               .unit = "fraction",
               .optional = true,
               .title = "error feedback",
               .drop_order = 1,
               .timed = false,
               .text = text_as("{:.2f}"),
               .meaning = "norm of what this rank has not sent yet of its gradients / norm of the "
                          "gradients that the step updated with; with strategies that compress"});
  const Quantity& gradient_norm =
      declare({.key = "gradient_norm",
               .optional = true,
               .timed = false,
               .meaning = "global norm before clipping; not there where it was not computed: with "
                          "`optimizer.clip_norm` 0, or in a skipped step"});
  const Quantity& lost_updates =
      declare({.key = "lost_updates",
               .unit = "%",
               .optional = true,
               .over_steps = OverSteps::ends,
               .timed = false,
               .meaning = "the share of the model's weights that the step had to move and that "
                          "[rounding](#lost-updates) left as they were; in the steps that are "
                          "looked at"});
  const Quantity& skipped =
      declare({.key = "skipped",
               .written = Written::boolean,
               .over_ranks = OverRanks::max,
               .over_steps = OverSteps::count,
               .timed = false,
               .meaning = "whether the precision kept this step from updating the parameters, as "
                          "one that scales the loss does when gradients overflow",
               .if_counted = "did not update the parameters"});
  const Quantity& first_step_done_s =
      declare({.key = "first_step_done_s",
               .unit = "s",
               .follows = find_first_step_done_s,
               .meaning = "max over r of the time from the start of the process to the end of the "
                          "first step (of a later row: from the start of its ranks)"});
  const Quantity& speed_up = declare(
      {.key = "speed_up",
       .compares = ddprun::speed_up,
       .title = "speed-up",
       .text = text_as("{:.2f}x"),
       .meaning = "median step of the row's [base](configuration.md#what-speed-up-counts-from) / "
                  "median step of this row",
       .remark = "the line below the table says what the base is. –: it was not measured. Without "
                 "a sweep there is no such column"});
  const Quantity& time_difference =
      declare({.key = "time_difference",
               .unit = "fraction",
               .compares = ddprun::time_difference,
               .meaning = "step of this row / step of its base - 1: 0.019 is 1.9 % more time"});
  const Quantity& strong_efficiency =
      declare({.key = "strong_efficiency",
               .unit = "fraction",
               .compares = find_strong_efficiency,
               .title = "strong eff.",
               .drop_order = 2,
               .text = text_as("{:.1f} %", 100),
               .meaning = "R0 x T0 / (R x T): the step times T, and ranks R, of this row and (0) "
                          "of [the same work](#scaling) on the fewest ranks"});
  const Quantity& weak_efficiency =
      declare({.key = "weak_efficiency",
               .unit = "fraction",
               .compares = find_weak_efficiency,
               .title = "weak eff.",
               .drop_order = 2,
               .text = text_as("{:.1f} %", 100),
               .meaning = "T0 / T, of this row and (0) of [the same work per rank](#scaling) on "
                          "the fewest ranks"});

 protected:
  explicit Training(KindFile file);

 private:
  static Figure find_exposed_share(const RunStatistics& run);
  static Figure find_overlapped_share(const RunStatistics& run);
  static Figure find_contention(const RunStatistics& run,
                                const std::vector<const RunStatistics*>& runs);
  static Figure find_tokens_per_s(const RunStatistics& run);
  static Figure find_s_per_million_tokens(const RunStatistics& run);
  static Figure find_strong_efficiency(const RunStatistics& run,
                                       const std::vector<const RunStatistics*>& runs);
  static Figure find_weak_efficiency(const RunStatistics& run,
                                     const std::vector<const RunStatistics*>& runs);
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

/// The one object of the kind.
const Training& training();

}  // namespace ddprun
