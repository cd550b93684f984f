// The kind of experiment that measures one call of attention and its backward: times, memory, and
// how far the results are from float64.
#pragma once

#include "ddprun/config/runnable_kind.h"
#include "ddprun/result/row_runs.h"

namespace ddprun {

class Attention;
class ProcessGroup;
class Sample;
struct AttentionConfig;
struct RankResult;
struct RepeatConfig;

struct AttentionKind final : RunnableKind {
  AttentionKind();
  std::string in_short(const RunStatistics& run) const override;
  std::vector<std::pair<std::string, std::string>> facts(const Run& run) const override;
  std::vector<Finding> findings(const std::vector<const RunStatistics*>& runs) const override;
  void check(const Experiment& experiment) const override;
  void check_plugins(const Experiment& experiment, const PluginRegistry& registry) const override;
  std::optional<Account> check_machine(const Experiment& experiment, const PluginRegistry& registry,
                                       std::int64_t local_ranks) const override;
  nlohmann::json work(const Experiment& experiment, const PluginRegistry& registry) const override;
  std::vector<std::string> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context) const override;

  const Quantity& time_ms =
      declare("time_ms", "ms",
              "from the call to its output and, with backward, to the gradients of q, k and v",
              {.title = "time ms", .spread = true});
  const Quantity& forward_ms = declare("forward_ms", "ms", "from the call to its output",
                                       {.title = "forward", .drop_order = 5});
  const Quantity& backward_ms =
      declare("backward_ms", "ms", "from the output to the gradients of q, k and v",
              {.optional = true, .title = "backward", .drop_order = 4});
  const Quantity& product_tflops =
      declare("product_tflops", "TFLOP/s",
              "the fastest product of two square matrices of the same type, on the same threads, "
              "right before (order 1024, of float16 256; on a GPU 8192)",
              {.timed = false});
  const Quantity& tflops = declare(
      "tflops", "TFLOP/s",
      "operations / median time. Operations as FlashAttention-2 counts them: 4 x batch x heads x "
      "length x keys x head_dim forward, half of it if causal, 2.5 times as many backward",
      {.follows = find_tflops, .title = "TFLOP/s", .drop_order = 3, .text = text_as("{:.3f}")});
  const Quantity& peak_share = declare("peak_share", "fraction", "TFLOP/s / `product_tflops`",
                                       {.follows = find_peak_share,
                                        .title = "of peak",
                                        .drop_order = 6,
                                        .text = text_as("{:.0f} %", 100)});
  const Quantity& before_backward_bytes = bytes_of_call(
      "before_backward_bytes", "before bwd MB", 2,
      "tensors there are when the output is there: inputs, output and what is kept for backward");
  const Quantity& peak_bytes = bytes_of_call(
      "peak_bytes", "peak MB", 1, "the most bytes that tensors took at a time within the call");
  const Quantity& inputs_bytes =
      bytes_by_formula("inputs_bytes", "q k v MB", 17, "by formula: q, k and v");
  const Quantity& output_bytes = bytes_by_formula(
      "output_bytes", "output MB", 16, "by formula: the output and, with backward, its gradient");
  const Quantity& scores_bytes =
      bytes_by_formula("scores_bytes", "scores MB", 13,
                       "by the attention's formula: what forward adds at its peak. –: it has none");
  const Quantity& saved_bytes =
      bytes_by_formula("saved_bytes", "saved MB", 14,
                       "by the attention's formula: what is kept for backward. –: it has none");
  const Quantity& backward_bytes =
      bytes_by_formula("backward_bytes", "backward MB", 15,
                       "by the attention's formula: what backward adds at its peak, the gradients "
                       "of q, k and v among it. –: it has none");
  const Quantity& before_backward_formula_bytes =
      bytes_by_formula("before_backward_formula_bytes", "before bwd by formula", 11,
                       "q k v + output + saved. –: the attention has no formula");
  const Quantity& peak_formula_bytes =
      bytes_by_formula("peak_formula_bytes", "peak by formula", 12,
                       "q k v + output + the larger of scores, and saved + backward. –: the "
                       "attention has no formula");
  const Quantity& error = declare("error", "",
                                  "the largest error against float64 of the output and of the "
                                  "gradients, [relative to the terms](#attention)",
                                  {.over_ranks = OverRanks::max,
                                   .title = "error",
                                   .drop_order = 7,
                                   .timed = false,
                                   .text = text_as("{:.1e}")});
  const Quantity& output_error = error_of("output_error", "output");
  const Quantity& dq_error = error_of("dq_error", "dq");
  const Quantity& dk_error = error_of("dk_error", "dk");
  const Quantity& dv_error = error_of("dv_error", "dv");
  const Quantity& samples = declare(number_of_calls(time_ms, 8));
  const Quantity& speed_up = declare(speed_up_of_calls());

 private:
  const Quantity& bytes_of_call(const char* key, const char* title, int drop_order,
                                const char* meaning, const char* of_work = "");
  const Quantity& bytes_by_formula(const char* key, const char* title, int drop_order,
                                   const char* meaning);
  const Quantity& error_of(const char* key, const char* result);
  static Figure find_tflops(const RunStatistics& run);
  static Figure find_peak_share(const RunStatistics& run);
};

/// Run::work: operations, and memory by formula. Throws PluginError if memory() fails.
nlohmann::json attention_work(const AttentionConfig& call, const Attention& attention);

/// Adds to `result` the checks "output", "dq", "dk" and "dv" and, if they passed, this rank's
/// samples (of kind attention) and the phases of the last one. `on_sample` is called after each
/// sample.
void measure_attention(const AttentionConfig& config, const RepeatConfig& repeat,
                       Attention& attention, ProcessGroup& group,
                       const std::function<void(const Sample&)>& on_sample, RankResult& result);

const AttentionKind& attention_kind();

}  // namespace ddprun
