// The faults that the tests plant, and who is to catch each in which words.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "integration/planted_steps.h"
#include "support/ddprun_command.h"

namespace ddprun::test {

/// by_sentence: the run is proved, and a line below its table says what is odd.
enum class Caught { by_run, by_sentence, by_verify };

struct Planted {
  std::string name;
  std::vector<std::string> set = {};
  Caught caught = Caught::by_run;
  /// Words of the sentence.
  std::vector<std::string> says = {};
  std::vector<std::string> launcher = {};
};

inline void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

inline std::string fault(const std::string& name) { return "strategy.fault=" + name; }

inline const std::string kLater = "strategy.first=1";  // from the second step on
inline const std::string kOnRank1 = "strategy.rank=1";
inline const std::string kAccumulate = "train.accumulate=2";
inline const std::string kOverlap = "optimizer.overlap=true";
inline const std::string kClip = "optimizer.clip_norm=0.5";
inline const std::string kBf16 = "precision=bf16_mixed";
inline const std::string kReference = "model.kernels=reference";

/// The fault in the step `unseen_step()` alone.
inline std::vector<std::string> once(const std::string& name, std::vector<std::string> more = {}) {
  const std::string step = std::to_string(unseen_step());
  more.insert(more.end(), {fault(name), "strategy.first=" + step, "strategy.last=" + step});
  return more;
}

/// The strategy is right.
inline std::vector<std::string> attention(const std::string& fault,
                                          std::vector<std::string> more = {}) {
  more.push_back("attention={name: planted, fault: " + fault + "}");
  return more;
}

inline std::vector<std::string> strategy(const std::string& name, const std::string& fault) {
  return {"strategy={name: " + name + ", fault: " + fault + "}"};
}

inline std::string at_step() { return "step " + std::to_string(unseen_step()) + ": "; }

inline std::vector<Planted> planted_faults() {
  const std::string held = "integer_gradients: strategy planted: held before step 0, failed after ";
  const std::string before = "integer_gradients: strategy planted: failed before step 0: rank ";
  const std::string initial =
      "initial_parameters_equal: strategy planted: failed before step 0: rank ";
  const std::string updated = "parameters_updated: strategy planted: failed after step ";
  const std::string last = std::to_string(kSteps - 1);
  const auto run = Caught::by_run;
  const auto verify = Caught::by_verify;
  std::vector<Planted> all;
  for (const char* name :
       {"halve", "zero", "shift", "swap_elements", "sum_for_mean", "drop_small", "negate",
        "of_rank_0", "noise", "not_a_number", "round_the_mean", "round_to_bfloat16",
        "skip_parameter", "off_by_one_range", "write_padding"}) {
    all.push_back({std::string(name) + "_later", {fault(name), kLater}, run, {held, "rank 0: "}});
    all.push_back({std::string(name) + "_always", {fault(name)}, run, {before, "nothing was"}});
  }
  for (const char* name :
       {"halve", "shift", "swap_elements", "sum_for_mean", "drop_small", "round_to_bfloat16"}) {
    all.push_back(
        {std::string(name) + "_once", once(name), verify, {at_step() + "the gradient of"}});
  }
  const std::vector<Planted> others = {
      {"write_padding_once", once("write_padding"), run, {"the padding behind the gradient of"}},
      {"write_ahead",
       {fault("write_ahead")},
       run,
       {"gradients_computed: attention eager or model.kernels fused: failed after step " + last +
            ", the last: rank 0: ",
        "of what PyTorch's operators make of them"}},
      {"drop_denormal", {fault("drop_denormal")}, run, {before, "rank 0: "}},
      {"round_to_23_bits", {fault("round_to_23_bits")}, run, {before, "rank 0: "}},
      {"halve_from_the_last_step_on",
       {fault("halve"), "strategy.first=" + last},
       run,
       {"strategy planted: held after step ", ", failed after step " + last}},
      {"halve_in_the_last_step",
       {fault("halve"), "strategy.first=" + last, "strategy.last=" + last},
       run,
       {"gradients_averaged: strategy planted: held after step ", "failed after step " + last,
        "are not the mean of the ranks' own"}},
      {"halve_on_rank_1", {fault("halve"), kOnRank1}, run, {before + "1: "}},
      {"halve_once_on_rank_1", once("halve", {kOnRank1}), run, {"parameters_equal", "on rank 1"}},
      {"skip_once", once("skip_parameter"), run, {"parameters_equal", "ln_final.weight"}},
      {"bfloat16_only",
       {fault("skip_in_bfloat16"), "precision={name: bf16_mixed, reduce_dtype: bfloat16}"},
       run,
       {before, "ln_final.weight"}},
      {"bf16_true_only",
       {fault("skip_in_bfloat16"), "precision=bf16_true", kReference},
       run,
       {before, "ln_final.weight"}},
      {"bf16_pure_only",
       {fault("skip_in_bfloat16"), "precision=bf16_pure", kReference},
       run,
       {before, "ln_final.weight"}},
      {"drop_micro_batch", {fault("drop_micro_batch"), kAccumulate}, run, {before}},
      {"drop_first_micro_batch_of_three",
       {fault("drop_first_of_three"), "train.accumulate=3", "train.batch_per_rank=3"},
       run,
       {"integer_gradients: "}},
      {"drop_first_three_micro_batches_of_five",
       {fault("drop_first_three"), "train.accumulate=5", "train.batch_per_rank=5"},
       run,
       {"integer_gradients: "}},
      {"drop_micro_batch_later", {fault("drop_micro_batch"), kAccumulate, kLater}, run, {held}},
      {"drop_micro_batch_once",
       once("drop_micro_batch", {kAccumulate}),
       verify,
       {at_step() + "the gradient of"}},
      {"stale_copy", {fault("stale_copy"), kBf16}, run, {"compute_copy: ", "held before step 0"}},
      {"stale_copy_of_bf16_true",
       {fault("stale_copy"), "precision=bf16_true", kReference},
       run,
       {"compute_copy: strategy planted: held before step 0", "token_embeddings.weight"}},
      {"stale_copy_on_rank_1",
       {fault("stale_copy"), kBf16, kOnRank1},
       run,
       {"compute_copy: ", ": rank 1: "}},
      {"stale_copy_once",
       once("stale_copy", {kBf16, kOnRank1}),
       verify,
       {at_step() + "compute_copy: ", "rank 1: "}},
      {"clip_by_rank",
       {fault("clip_by_rank"), kClip},
       run,
       {"step_scalars_equal: strategy planted: failed in step 0: rank 0 has", "rank 1 has"}},
      {"clip_by_rank_once",
       once("clip_by_rank", {kClip}),
       run,
       {"step_scalars_equal", "failed in step " + std::to_string(unseen_step()), "rank 1 has"}},
      {"clip_by_rank_in_place",
       {fault("clip_by_rank_in_place"), kClip},
       run,
       {updated + "0: rank ", "are not what the optimizer makes of the mean gradients"}},
      {"clip_by_rank_in_place_once",
       once("clip_by_rank_in_place", {kClip}),
       verify,
       {at_step() + "from equal gradients, the relative update of"}},
      {"no_update", {fault("no_update")}, run, {updated + "0: rank 0: "}},
      {"decay_later", {fault("decay"), kLater}, run, {"parameters_updated: "}},
      {"forget_moments", {fault("forget_moments")}, run, {updated, " moments of "}},
      {"no_update_in_the_last_step",
       {fault("no_update"), "strategy.first=" + last},
       run,
       {"parameters_updated: strategy planted: held after step ", "failed after step " + last}},
      {"no_update_of_norms", {fault("no_update_of_norms")}, run, {updated + "0: ", "ln"}},
      {"half_an_update", {fault("half_an_update")}, run, {updated + "0: "}},
      {"halve_in_update", {fault("halve_in_update")}, run, {updated + "0: "}},
      {"wrong_moments", {fault("wrong_moments")}, run, {updated, " moments of "}},
      {"no_update_once",
       once("no_update"),
       verify,
       {at_step() + "from equal gradients, the relative update of"}},
      {"no_update_on_rank_1",
       {fault("no_update"), kOnRank1},
       run,
       {"parameters_equal: ", "held before step 0", "on rank 1"}},
      {"drift",
       {fault("drift"), kLater},
       run,
       {"parameters_updated: strategy planted: held after step 0, failed after step ", "lm_head"}},
      {"drift_once", once("drift"), verify, {at_step() + "from equal gradients", "lm_head"}},
      {"no_broadcast", {fault("no_broadcast")}, run, {initial + "1", "broadcast"}},
      {"wrong_root", {fault("wrong_root")}, run, {initial + "0", "broadcast"}},
      {"parameters_travel_rounded",
       {fault("broadcast_bfloat16")},
       run,
       {initial + "0", "does not begin with the model's values"}},
      {"precision_rounds_parameters",
       {"precision={name: planted, rounds: trained}", kReference},
       run,
       {initial + "0", "does not begin with the model's values"}},
      {"precision_rounds_frozen_parameters",
       {"precision={name: planted, rounds: frozen}", "model.frozen='layers.*'", kReference},
       run,
       {initial + "0", "layers.0", "does not begin with the model's values"}},
      {"more_collectives",
       {fault("more_collectives"), kLater},
       run,
       {"collectives_as_planned: strategy planted: failed in step 1: 1 barrier"}},
      {"fewer_collectives_once_on_rank_1",
       once("fewer_collectives", {kOnRank1}),
       run,
       {"the ranks called different collectives", ": all_reduce 'ln_final.weight' of "}},
      {"shorter_collective_once_on_rank_1",
       once("shorter_collective", {kOnRank1}),
       run,
       {"the ranks called different collectives", "'ln_final.weight' of 112 bytes",
        "'ln_final.weight' of 48 bytes"}},
      {"leave_open",
       {fault("leave_open"), kLater},
       run,
       {"a step ended before its collectives", "step 1", "1 of them open: all_reduce 'late' of"}},
      {"wait_later_once",
       once("wait_later"),
       run,
       {"a step ended before its collectives", "step " + std::to_string(unseen_step()),
        "which nobody waited for"}},
      {"stale",
       {fault("stale")},
       run,
       {"integer_gradients: strategy planted: held before step 0, failed after step 0"}},
      {"halve_unless_checked",
       {fault("halve_unless_checked")},
       run,
       {"gradients_averaged: strategy planted: failed after step 0: rank 0: "}},
      {"work_put_off",
       {fault("work_later")},
       run,
       {"rest_after_steps: a plugin: ", ": threads of the rank computed"}},
      {"work_on_another_thread",
       {fault("work_always"), kOnRank1},
       run,
       {"rest_after_steps: a plugin: ", "rank 1: threads of the rank computed"}},
      {"sleep_in_warm_up",
       {fault("sleep"), "strategy.last=1"},
       Caught::by_sentence,
       {"a rank of one slept for ", " ms in warm-up steps"}},
      {"slow_clock",
       {fault("nothing")},
       run,
       {"clock_agrees: a plugin: failed in all steps: rank 0: 8 steps took ",
        "something replaced clock_gettime"},
       {"/usr/bin/env", "LD_PRELOAD=" DDPRUN_BUILD_DIR "/tests/plugins/slow_clock.so"}},
      {"lossy_overwrites_what_it_kept",
       strategy("planted_lossy", "overwrite"),
       run,
       {"integer_gradients: strategy planted_lossy: failed before step 0"}},
      {"lossy_never_sends_what_it_kept",
       strategy("planted_lossy", "never_send"),
       run,
       {"what was kept back is not sent with the next gradients"}},
      {"lossy_lets_it_decay", strategy("planted_lossy", "decay"), run, {"integer_gradients: "}},
      {"lossy_loses_it_in_update",
       strategy("planted_lossy", "lose_in_update"),
       run,
       {"gradients_averaged: ", "update() changed the error feedback"}},
      {"lossy_sends_other_values_on_a_rank",
       strategy("planted_lossy", "ranks_differ"),
       run,
       {"integer_gradients: strategy planted_lossy: failed before step 0"}},
      {"lossy_halves", strategy("planted_lossy", "halve"), run, {"integer_gradients: "}},
      {"lossy_does_not_save_what_it_kept",
       {"strategy={name: planted_lossy}", "train.checkpoint={every: 4, path: saved}"},
       run,
       {"a checkpoint would lose what the strategy carries", "strategy planted_lossy"}},
      {"periodic_is_off_by_little",
       strategy("planted_periodic", "off_by_little"),
       run,
       {"parameters_updated: strategy planted_periodic: ", "failed after step 1"}},
      {"periodic_takes_one_rank",
       strategy("planted_periodic", "one_rank_only"),
       run,
       {"parameters_updated: ", "failed after step 1"}},
      {"periodic_ranks_differ",
       strategy("planted_periodic", "ranks_differ"),
       run,
       {"parameters_equal: ", "on rank 1"}},
      {"sharded_reads_others_in_backward",
       {"strategy={name: planted_sharded, fault: backward_reads_others}", kReference},
       run,
       {"integer_gradients: strategy planted_sharded: failed before step 0: rank 0: ",
        " in backward is not what it read in forward"}},
      {"exact_says_its_ranks_are_apart",
       strategy("planted_periodic", "exact_says_apart"),
       run,
       {"integer_gradients: "}},
      {"attention_not_causal",
       attention("not_causal"),
       run,
       {"attention_computed: attention planted: failed before step 0: rank 0: output is off by"}},
      {"attention_without_the_last_key", attention("drop_last_key"), run, {"output is off by"}},
      {"attention_scale_off_by_1_percent", attention("scale"), run, {"output is off by"}},
      {"attention_without_gradient_of_q", attention("no_gradient_of_q"), run, {"dq is off by"}},
      {"attention_without_gradient_of_k", attention("no_gradient_of_k"), run, {"dk is off by"}},
      {"attention_to_8_keys", attention("window"), run, {"output is off by"}},
      {"attention_of_half_the_batch", attention("half_the_batch"), run, {"output is off by"}},
      {"attention_across_documents",
       attention("across_documents", {"data={source: text, path: text.txt, document_end: 10}"}),
       run,
       {"output is off by"}},
      {"attention_is_another_in_evaluations",
       attention("evaluate_other"),
       run,
       {"output without gradients is off by"}},
      {"attention_ignores_strides", attention("ignore_strides"), run, {"output is off by"}},
      {"attention_has_one_scratch", attention("reuse_scratch"), run, {"dq is off by"}},
      {"attention_has_two_scratches",
       attention("reuse_scratch, scratches: 2", {"model.layers=3"}),
       run,
       {"gradients_computed: attention planted or model.kernels fused: failed after step"}},
      {"attention_has_two_scratches_reference",
       attention("reuse_scratch, scratches: 2", {"model.layers=3", kReference}),
       run,
       {"gradients_computed: attention planted or precision fp32: failed after step"}},
      {"attention_wrong_gradient_in_the_first_head",
       attention("dk, row: 15, add: 1, first_head: true", {"model.context_length=64"}),
       run,
       {"dk is off by", "batch 0, head 0, row 15"}},
      {"attention_reuses_its_last_output",
       attention("reuse"),
       run,
       {"output without gradients is off by"}},
      {"attention_without_gradient_of_v", attention("no_gradient_of_v"), run, {"dv is off by"}},
      {"attention_not_causal_in_bfloat16",
       attention("not_causal", {kBf16}),
       run,
       {"output is off by"}},
      {"says_bfloat16_computes_float32",
       {"precision={name: planted, declares: bfloat16}", kReference},
       run,
       {"products_format: precision planted: failed before step 0: rank 0: linear layers multiply "
        "in float32, declared is bfloat16"}},
      {"says_float32_computes_bfloat16",
       {"precision={name: planted, computes: bfloat16}", kReference},
       run,
       {"linear layers multiply in bfloat16, declared is float32"}},
      {"linear_halves_gradients",
       {"precision={name: planted, linear: halves_gradients}", kReference},
       run,
       {"products_format: precision planted: failed before step 0: rank 0: a linear layer 60 x 28 "
        "is off by 0.5"}},
      {"linear_takes_the_first_sample",
       {"precision={name: planted, linear: of_first_sample}", kReference},
       run,
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_loses_the_tail_of_a_forward",
       {"precision={name: planted, linear: loses_tail}", kReference, "train.measure=forward",
        "world.size=1"},
       run,
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_has_one_scratch",
       {"precision={name: planted, linear: reuses_scratch}", kReference},
       run,
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_loses_columns_behind_512",
       {"precision={name: planted, linear: loses_columns}", "model.d_ff=520", kReference},
       run,
       {"gradients_computed: attention eager or precision planted: failed after step"}},
      {"linear_loses_the_tail",
       {"precision={name: planted, linear: loses_tail}", kReference},
       run,
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"gradients_scaled_back_by_half",
       {"precision={name: planted, scales: 1024, scales_back: 512}", kClip},
       run,
       {"loss_scaled_back: precision planted: failed after step 0: rank 0: the loss was multiplied "
        "by 1024, and its gradients by 0.0019531"}},
      {"throw_before_forward",
       {fault("throw_before_forward"), kLater},
       run,
       {"a plugin failed: strategy planted, before_forward()", "the words of the plugin"}},
      {"ready_twice",
       {fault("ready_twice"), kOverlap},
       run,
       {"updated twice in one step", "strategy planted, finish_backward()"}},
      {"ready_too_early",
       {fault("ready_too_early"), kOverlap},
       run,
       {"before backward was done", "strategy planted, on_gradient()"}},
      {"throw_text",
       {fault("throw_text"), kLater},
       run,
       {"a plugin failed: strategy planted, finish_backward()", "the words of the plugin"}},
      {"throw_number_once",
       once("throw_number", {kOnRank1}),
       run,
       {"rank 1 failed: a plugin failed: strategy planted, finish_backward()"}},
      {"ready_before_reduced",
       {fault("ready_before_reduced"), kOverlap},
       run,
       {"parameters_equal: strategy planted: held before step 0, failed after step"}},
      {"ready_before_reduced_once",
       once("ready_before_reduced", {kOverlap}),
       run,
       {"parameters_equal: ", "on rank 1"}},
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace ddprun::test
