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
  /// Words of the sentence.
  std::vector<std::string> says = {};
  Caught caught = Caught::by_run;
  std::vector<std::string> launcher = {};
  std::vector<std::string> saved_by = {};  ///< of a run that this one goes on from; empty: none
};

inline void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

inline std::string fault(const std::string& name) { return "strategy.fault=" + name; }

inline const std::string kLater = "strategy.first=1";  // from the second step on
inline const std::string kOnRank1 = "strategy.rank=1";
inline const std::string kAccumulate = "train.accumulate=2";
inline const std::string kOverlap = "optimizer.overlap=true";
inline const std::string kClip = "optimizer.clip_norm=0.5";
inline const std::string kBf16 = "precision=bf16_mixed";
inline const std::string kSaves = "train.checkpoint={every: 4, path: saved}";
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

/// With PyTorch's operators, whose linear layers a precision can compute.
inline std::vector<std::string> precision(const std::string& options,
                                          std::vector<std::string> more = {}) {
  more.insert(more.end(), {"precision={name: planted, " + options + "}", kReference});
  return more;
}

inline std::vector<std::string> lossy(const std::string& fault) {
  return {"strategy={name: planted_lossy, fault: " + fault + "}"};
}
inline std::vector<std::string> periodic(const std::string& fault) {
  return {"strategy={name: planted_periodic, fault: " + fault + "}"};
}

inline std::string at_step() { return "step " + std::to_string(unseen_step()) + ": "; }

inline std::vector<Planted> planted_faults() {
  const std::string held = "integer_gradients: strategy planted: held before step 0, failed after ";
  const std::string before = "integer_gradients: strategy planted: failed before step 0: rank ";
  const std::string initial =
      "initial_parameters_equal: strategy planted: failed before step 0: rank ";
  const std::string process = "process_as_told: a plugin: held before step 0, failed after step ";
  const std::string updated = "parameters_updated: strategy planted: failed after step ";
  const std::string last = std::to_string(kSteps - 1);
  std::vector<Planted> all;
  for (const char* name :
       {"halve", "zero", "shift", "swap_elements", "sum_for_mean", "drop_small", "negate",
        "of_rank_0", "noise", "not_a_number", "round_the_mean", "round_to_bfloat16",
        "skip_parameter", "off_by_one_range", "write_padding"}) {
    all.push_back({std::string(name) + "_later", {fault(name), kLater}, {held, "rank 0: "}});
    all.push_back({std::string(name) + "_always", {fault(name)}, {before, "nothing was"}});
  }
  for (const char* name :
       {"halve", "shift", "swap_elements", "sum_for_mean", "drop_small", "round_to_bfloat16"}) {
    all.push_back({std::string(name) + "_once",
                   once(name),
                   {at_step() + "the gradient of"},
                   Caught::by_verify});
  }
  for (const auto& [name, words] : {std::pair("locale", "the locale is C.utf8, and was C "),
                                    {"decimal_comma", "the decimal point is ,"},
                                    {"working_directory", "the working directory is /, and was "},
                                    {"signals", "SIGTERM or SIGUSR1 has another handler"},
                                    {"deterministic", "deterministic operators is on"},
                                    {"float32_products", "float32 products is bf16"},
                                    {"without_onednn", "oneDNN is off"},
                                    {"without_onednn_in_steps", "oneDNN is off"},
                                    {"flush_denormals", "a denormal number is taken for zero"}}) {
    all.push_back({name, {fault(name)}, {process, words}});
  }
  const std::vector<Planted> others = {
      {"write_padding_once", once("write_padding"), {"the padding behind the gradient of"}},
      {"write_ahead",
       {fault("write_ahead")},
       {"gradients_computed: attention eager or model.kernels fused: failed after step " + last +
            ", the last: rank 0: ",
        "of what PyTorch's operators make of them"}},
      {"hide_not_finite", {fault("hide_not_finite")}, {before, "differ from the exact mean"}},
      {"hide_not_finite_later", {fault("hide_not_finite"), kLater}, {held}},
      // With two ranks parameters differ at times, most likely as two threads sum: one rounds so.
      {"round_to_zero", {fault("round_to_zero"), "world.size=1"}, {process, "rounding is another"}},
      {"more_threads", {fault("more_threads"), kOnRank1}, {process, "threads on core"}},
      {"more_cores", {fault("more_cores")}, {process, ", and was told "}},
      {"drop_denormal", {fault("drop_denormal")}, {before, "rank 0: "}},
      {"round_to_23_bits", {fault("round_to_23_bits")}, {before, "rank 0: "}},
      {"halve_from_the_last_step_on",
       {fault("halve"), "strategy.first=" + last},
       {"strategy planted: held after step ", ", failed after step " + last}},
      {"halve_in_the_last_step",
       {fault("halve"), "strategy.first=" + last, "strategy.last=" + last},
       {"gradients_averaged: strategy planted: held after step ", "failed after step " + last,
        "are not the mean of the ranks' own"}},
      {"halve_on_rank_1", {fault("halve"), kOnRank1}, {before + "1: "}},
      {"halve_once_on_rank_1", once("halve", {kOnRank1}), {"parameters_equal", "on rank 1"}},
      {"skip_once", once("skip_parameter"), {"parameters_equal", "ln_final.weight"}},
      {"bfloat16_only",
       {fault("skip_in_bfloat16"), "precision={name: bf16_mixed, reduce_dtype: bfloat16}"},
       {before, "ln_final.weight"}},
      {"bf16_true_only",
       {fault("skip_in_bfloat16"), "precision=bf16_true", kReference},
       {before, "ln_final.weight"}},
      {"bf16_pure_only",
       {fault("skip_in_bfloat16"), "precision=bf16_pure", kReference},
       {before, "ln_final.weight"}},
      {"drop_micro_batch", {fault("drop_micro_batch"), kAccumulate}, {before}},
      {"drop_first_micro_batch_of_three",
       {fault("drop_first_of_three"), "train.accumulate=3", "train.batch_per_rank=3"},
       {"integer_gradients: "}},
      {"drop_first_three_micro_batches_of_five",
       {fault("drop_first_three"), "train.accumulate=5", "train.batch_per_rank=5"},
       {"integer_gradients: "}},
      {"drop_micro_batch_later", {fault("drop_micro_batch"), kAccumulate, kLater}, {held}},
      {"drop_micro_batch_once",
       once("drop_micro_batch", {kAccumulate}),
       {at_step() + "the gradient of"},
       Caught::by_verify},
      {"stale_copy", {fault("stale_copy"), kBf16}, {"compute_copy: ", "held before step 0"}},
      {"stale_copy_of_bf16_true",
       {fault("stale_copy"), "precision=bf16_true", kReference},
       {"compute_copy: strategy planted: held before step 0", "token_embeddings.weight"}},
      {"stale_copy_on_rank_1",
       {fault("stale_copy"), kBf16, kOnRank1},
       {"compute_copy: ", ": rank 1: "}},
      {"stale_copy_once",
       once("stale_copy", {kBf16, kOnRank1}),
       {at_step() + "compute_copy: ", "rank 1: "},
       Caught::by_verify},
      {"clip_by_rank",
       {fault("clip_by_rank"), kClip},
       {"step_scalars_equal: strategy planted: failed in step 0: rank 0 has", "rank 1 has"}},
      {"no_clip_in_the_last_step",
       {fault("no_clip"), "strategy.first=" + last, kClip},
       {"step_scalars_equal: strategy planted: failed in step " + last,
        "gradients were multiplied by 1, and by 0."}},
      {"clip_again", {fault("clip_again"), kClip}, {updated + "0: "}},
      {"other_learning_rate_once", once("learning_rate"), {"rate is 0.002, and 0.001 by its "}},
      {"first_correction_again", {fault("first_correction"), kLater}, {"counts 1 updates, "}},
      {"clip_by_rank_once",
       once("clip_by_rank", {kClip}),
       {"step_scalars_equal", "failed in step " + std::to_string(unseen_step()), "rank 1 has"}},
      {"clip_by_rank_in_place",
       {fault("clip_by_rank_in_place"), kClip},
       {updated + "0: rank ", "are not what the optimizer makes of the mean gradients"}},
      {"clip_by_rank_in_place_once",
       once("clip_by_rank_in_place", {kClip}),
       {at_step() + "from equal gradients, the relative update of"},
       Caught::by_verify},
      {"no_update", {fault("no_update")}, {updated + "0: rank 0: "}},
      {"decay_later", {fault("decay"), kLater}, {"parameters_updated: "}},
      {"forget_moments", {fault("forget_moments")}, {updated, " moments of "}},
      {"no_update_in_the_last_step",
       {fault("no_update"), "strategy.first=" + last},
       {"parameters_updated: strategy planted: held after step ", "failed after step " + last}},
      {"no_update_of_norms", {fault("no_update_of_norms")}, {updated + "0: ", "ln"}},
      {"no_decay_of_norms", {fault("no_decay_of_norms")}, {updated + "0: ", "ln"}},
      {"zero_moments_of_a_resumed_run",
       {fault("zero_moments"), "strategy.last=0", "train.resume_from=latest", kSaves},
       {"parameters_updated: strategy planted: failed after step 4: rank 0: "},
       Caught::by_run,
       {},
       {"train.steps=2", kSaves}},
      {"half_an_update", {fault("half_an_update")}, {updated + "0: "}},
      {"halve_in_update", {fault("halve_in_update")}, {updated + "0: "}},
      {"wrong_moments", {fault("wrong_moments")}, {updated, " moments of "}},
      {"no_update_once",
       once("no_update"),
       {at_step() + "from equal gradients, the relative update of"},
       Caught::by_verify},
      {"no_update_on_rank_1",
       {fault("no_update"), kOnRank1},
       {"parameters_equal: ", "held before step 0", "on rank 1"}},
      {"drift",
       {fault("drift"), kLater},
       {"parameters_updated: strategy planted: held after step 0, failed after step ", "lm_head"}},
      {"drift_once",
       once("drift"),
       {at_step() + "from equal gradients", "lm_head"},
       Caught::by_verify},
      {"no_broadcast", {fault("no_broadcast")}, {initial + "1", "broadcast"}},
      {"wrong_root", {fault("wrong_root")}, {initial + "0", "broadcast"}},
      {"parameters_travel_rounded",
       {fault("broadcast_bfloat16")},
       {initial + "0", "does not begin with the model's values"}},
      {"precision_rounds_parameters",
       precision("rounds: trained"),
       {initial + "0", "does not begin with the model's values"}},
      {"precision_rounds_frozen_parameters",
       precision("rounds: frozen", {"model.frozen='layers.*'"}),
       {initial + "0", "layers.0", "does not begin with the model's values"}},
      {"more_collectives",
       {fault("more_collectives"), kLater},
       {"collectives_as_planned: strategy planted: failed in step 1: 1 barrier"}},
      {"fewer_collectives_once_on_rank_1",
       once("fewer_collectives", {kOnRank1}),
       {"the ranks called different collectives", ": all_reduce 'ln_final.weight' of "}},
      {"shorter_collective_once_on_rank_1",
       once("shorter_collective", {kOnRank1}),
       {"the ranks called different collectives", "'ln_final.weight' of 112 bytes",
        "'ln_final.weight' of 48 bytes"}},
      {"leave_open",
       {fault("leave_open"), kLater},
       {"a step ended before its collectives", "step 1", "1 of them open: all_reduce 'late' of"}},
      {"wait_later_once",
       once("wait_later"),
       {"a step ended before its collectives", "step " + std::to_string(unseen_step()),
        "which nobody waited for"}},
      {"stale",
       {fault("stale")},
       {"integer_gradients: strategy planted: held before step 0, failed after step 0"}},
      {"halve_unless_checked",
       {fault("halve_unless_checked")},
       {"gradients_averaged: strategy planted: failed after step 0: rank 0: "}},
      {"work_put_off",
       {fault("work_later")},
       {"rest_after_steps: a plugin: ", ": threads of the rank computed"}},
      {"work_on_another_thread",
       {fault("work_always"), kOnRank1},
       {"rest_after_steps: a plugin: ", "rank 1: threads of the rank computed"}},
      {"sleep_in_warm_up",
       {fault("sleep"), "strategy.last=1"},
       {"a rank of one slept for ", " ms in warm-up steps"},
       Caught::by_sentence},
      {"slow_clock",
       {fault("nothing")},
       {"clock_agrees: a plugin: failed in all steps: rank 0: 8 steps took ",
        "something replaced clock_gettime"},
       Caught::by_run,
       {"/usr/bin/env", "LD_PRELOAD=" DDPRUN_BUILD_DIR "/tests/plugins/slow_clock.so"}},
      {"lossy_overwrites_what_it_kept",
       lossy("overwrite"),
       {"planted_lossy: failed before step 0"}},
      {"lossy_never_sends_what_it_kept",
       lossy("never_send"),
       {"what was kept back is not sent with the next gradients"}},
      {"lossy_lets_it_decay", lossy("decay"), {"integer_gradients: "}},
      {"lossy_loses_it_in_update",
       lossy("lose_in_update"),
       {"gradients_averaged: ", "update() changed the error feedback"}},
      {"lossy_sends_other_values_on_a_rank", lossy("ranks_differ"), {"integer_gradients: "}},
      {"lossy_halves", lossy("halve"), {"integer_gradients: "}},
      {"lossy_does_not_save_what_it_kept",
       {"strategy={name: planted_lossy}", kSaves},
       {"a checkpoint would lose what the strategy carries", "strategy planted_lossy"}},
      {"periodic_is_off_by_little",
       periodic("off_by_little"),
       {"parameters_updated: strategy planted_periodic: ", "failed after step 1"}},
      {"periodic_takes_one_rank", periodic("one_rank_only"), {"failed after step 1"}},
      {"periodic_ranks_differ", periodic("ranks_differ"), {"parameters_equal: ", "on rank 1"}},
      {"gossip_mixes_by_other_weights",
       periodic("mixes_by_other_weights"),
       {"failed after step 1: rank 1: ", "are not the ranks' mean of what"}},
      {"gossip_loses_the_mean", periodic("loses_the_mean"), {"rank 0 made sum to 0.5, not 1"}},
      {"sharded_reads_others_in_backward",
       {"strategy={name: planted_sharded, fault: backward_reads_others}", kReference},
       {"integer_gradients: strategy planted_sharded: failed before step 0: rank 0: ",
        " in backward is not what it read in forward"}},
      {"exact_says_its_ranks_are_apart", periodic("exact_says_apart"), {"integer_gradients: "}},
      {"attention_not_causal",
       attention("not_causal"),
       {"attention_computed: attention planted: failed before step 0: rank 0: output is off by"}},
      {"attention_without_the_last_key", attention("drop_last_key"), {"output is off by"}},
      {"attention_scale_off_by_1_percent", attention("scale"), {"output is off by"}},
      {"attention_without_gradient_of_q", attention("no_gradient_of_q"), {"dq is off by"}},
      {"attention_without_gradient_of_k", attention("no_gradient_of_k"), {"dk is off by"}},
      {"attention_to_8_keys", attention("window"), {"output is off by"}},
      {"attention_of_half_the_batch", attention("half_the_batch"), {"output is off by"}},
      {"attention_across_documents",
       attention("across_documents", {"data={source: text, path: text.txt, document_end: 10}"}),
       {"output is off by"}},
      {"attention_is_another_in_evaluations",
       attention("evaluate_other"),
       {"output without gradients is off by"}},
      {"attention_ignores_strides", attention("ignore_strides"), {"output is off by"}},
      {"attention_has_one_scratch", attention("reuse_scratch"), {"dq is off by"}},
      {"attention_has_two_scratches",
       attention("reuse_scratch, scratches: 2", {"model.layers=3"}),
       {"gradients_computed: attention planted or model.kernels fused: failed after step"}},
      {"attention_has_two_scratches_reference",
       attention("reuse_scratch, scratches: 2", {"model.layers=3", kReference}),
       {"gradients_computed: attention planted or precision fp32: failed after step"}},
      {"attention_wrong_gradient_in_the_first_head",
       attention("dk, row: 15, add: 1, first_head: true", {"model.context_length=64"}),
       {"dk is off by", "batch 0, head 0, row 15"}},
      {"attention_reuses_its_last_output",
       attention("reuse"),
       {"output without gradients is off by"}},
      {"attention_without_gradient_of_v", attention("no_gradient_of_v"), {"dv is off by"}},
      {"attention_not_causal_in_bfloat16", attention("not_causal", {kBf16}), {"output is off by"}},
      {"says_bfloat16_computes_float32",
       precision("declares: bfloat16"),
       {"products_format: precision planted: failed before step 0: rank 0: linear layers multiply "
        "in float32, declared is bfloat16"}},
      {"says_float32_computes_bfloat16",
       precision("computes: bfloat16"),
       {"linear layers multiply in bfloat16, declared is float32"}},
      {"linear_halves_gradients",
       precision("linear: halves_gradients"),
       {"products_format: precision planted: failed before step 0: rank 0: a linear layer 60 x 28 "
        "is off by 0.5"}},
      {"linear_takes_the_first_sample",
       precision("linear: of_first_sample"),
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_loses_the_tail_of_a_forward",
       precision("linear: loses_tail", {"train.measure=forward", "world.size=1"}),
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_has_one_scratch",
       precision("linear: reuses_scratch"),
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_loses_columns_behind_512",
       precision("linear: loses_columns", {"model.d_ff=520"}),
       {"gradients_computed: attention eager or precision planted: failed after step"}},
      {"linear_loses_the_tail",
       precision("linear: loses_tail"),
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_loses_columns_of_a_forward",
       precision("linear: loses_columns",
                 {"model.d_ff=520", "train.measure=forward", "world.size=1"}),
       {"loss_computed: attention eager or precision planted: failed after step", "the loss is"}},
      {"linear_rounds_its_input",
       precision("linear: rounds_input"),
       {"products_format: precision planted: failed before step 0: rank 0: "}},
      {"linear_writes_weights", precision("linear: writes_weight"), {updated + "0: "}},
      {"linear_writes_frozen_weights",
       precision("linear: writes_weight", {"model.frozen='layers.*'"}),
       {"parameters_unchanged: a plugin: failed after step "}},
      {"precision_evaluates_another_model",
       precision("evaluates_other: true"),
       {"gradients_computed: ", "the loss without gradients is "}},
      {"scaler_writes_gradients",
       precision("scales: 1024, scales_back: 1024, scaler: writes_gradients"),
       {updated + "0: "}},
      {"gradients_scaled_back_by_half",
       {"precision={name: planted, scales: 1024, scales_back: 512}", kClip},
       {"loss_scaled_back: precision planted: failed after step 0: rank 0: the loss was multiplied "
        "by 1024, and its gradients by 0.0019531"}},
      {"loss_of_a_micro_batch_scaled_otherwise",
       precision("scales: 1024, scales_back: 1024, scaler: one_other", {kAccumulate}),
       {"loss_scaled_back: precision planted: ",
        "rank 0: the loss was multiplied by 2048, and its"}},
      {"hooks_halve_gradients", precision("hooks: true"), {before}},
      {"throw_before_forward",
       {fault("throw_before_forward"), kLater},
       {"a plugin failed: strategy planted, before_forward()", "the words of the plugin"}},
      {"ready_twice",
       {fault("ready_twice"), kOverlap},
       {"updated twice in one step", "strategy planted, finish_backward()"}},
      {"ready_too_early",
       {fault("ready_too_early"), kOverlap},
       {"before backward was done", "strategy planted, on_gradient()"}},
      {"throw_text",
       {fault("throw_text"), kLater},
       {"a plugin failed: strategy planted, finish_backward()", "the words of the plugin"}},
      {"throw_number_once",
       once("throw_number", {kOnRank1}),
       {"rank 1 failed: a plugin failed: strategy planted, finish_backward()"}},
      {"ready_before_reduced",
       {fault("ready_before_reduced"), kOverlap},
       {"parameters_equal: strategy planted: held before step 0, failed after step"}},
      {"ready_before_reduced_once",
       once("ready_before_reduced", {kOverlap}),
       {"parameters_equal: ", "on rank 1"}},
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace ddprun::test
