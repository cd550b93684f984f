// Strategies with one fault each: the run itself or `ddprun verify` must catch it, in a sentence
// that names what is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "ddprun/experiments/training/run_proof.h"
#include "ddprun/experiments/training/training_config.h"
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 8;  // warm-up included
constexpr int kWarmup = 2;
constexpr int kProofSeed = 12;  // with which no run looks at itself just before the last step

/// A step (not the first, not the last) at which, and before which, no run of these tests looks at
/// itself.
int unseen_step() {
  TrainConfig train;
  train.warmup_steps = kWarmup;
  train.steps = kSteps - kWarmup;
  const auto drawn = drawn_steps(kProofSeed, train);
  const auto looks = [&](int step) { return std::ranges::binary_search(drawn, step); };
  for (int step = 2; step + 1 < kSteps; ++step) {
    if (!looks(step) && !looks(step - 1)) return step;
  }
  return 0;
}

enum class Caught { by_run, by_verify };

struct Planted {
  std::string name;
  std::vector<std::string> set = {};
  Caught caught = Caught::by_run;
  /// Words of the sentence.
  std::vector<std::string> says = {};
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

std::string fault(const std::string& name) { return "strategy.fault=" + name; }

const std::string kLater = "strategy.first=1";  // from the second step on
const std::string kOnRank1 = "strategy.rank=1";
const std::string kAccumulate = "train.accumulate=2";
const std::string kOverlap = "optimizer.overlap=true";
const std::string kClip = "optimizer.clip_norm=0.5";
const std::string kBf16 = "precision=bf16_mixed";
const std::string kReference = "model.kernels=reference";

/// The fault in the step `unseen_step()` alone.
std::vector<std::string> once(const std::string& name, std::vector<std::string> more = {}) {
  const std::string step = std::to_string(unseen_step());
  more.insert(more.end(), {fault(name), "strategy.first=" + step, "strategy.last=" + step});
  return more;
}

/// The strategy is right.
std::vector<std::string> attention(const std::string& fault, std::vector<std::string> more = {}) {
  more.push_back("attention={name: planted, fault: " + fault + "}");
  return more;
}

std::string at_step() { return "step " + std::to_string(unseen_step()) + ": "; }

std::vector<Planted> planted_faults() {
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
       {"halve", "zero", "shift", "swap_elements", "sum_for_mean", "drop_small",
        "round_to_bfloat16", "skip_parameter", "off_by_one_range", "write_padding"}) {
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
      {"drop_denormal", {fault("drop_denormal")}, run, {before, "rank 0: "}},
      {"round_to_23_bits", {fault("round_to_23_bits")}, run, {before, "rank 0: "}},
      {"halve_from_the_last_step_on",
       {fault("halve"), "strategy.first=" + last},
       run,
       {"strategy planted: held after step ", ", failed after step " + last}},
      {"halve_in_the_last_step",
       {fault("halve"), "strategy.first=" + last, "strategy.last=" + last},
       verify,
       {"step " + last + ": the gradient of"}},
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
      {"attention_not_causal",
       attention("not_causal"),
       run,
       {"attention_computed: attention planted: failed before step 0: rank 0: output is off by"}},
      {"attention_without_the_last_key", attention("drop_last_key"), run, {"output is off by"}},
      {"attention_scale_off_by_1_percent", attention("scale"), run, {"output is off by"}},
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

class PlantedFault : public testing::TestWithParam<Planted> {
 protected:
  /// `ddprun COMMAND` on two ranks with the strategy that has the fault.
  static CommandResult ddprun(const std::string& command, std::vector<std::string> set) {
    const TemporaryFolder folder;
    // Widths that are no multiple of 16 leave padding in the buffers.
    folder.write("one.yaml",
                 "model: {vocab_size: 256, context_length: 16, d_model: 28, d_ff: 60, layers: 1, "
                 "heads: 2}\n"
                 "data: {source: random}\n"
                 "world: {size: 2}\n"
                 "strategy: {name: planted}\n"
                 "precision: fp32\n"
                 "attention: eager\n"
                 "optimizer: {name: adamw, lr: 0.001}\n"
                 "train: {batch_per_rank: 2, warmup_steps: " +
                     std::to_string(kWarmup) + ", steps: " + std::to_string(kSteps - kWarmup) +
                     ", proof_seed: " + std::to_string(kProofSeed) + "}\n");
    std::vector<std::string> words = {command, "one.yaml", "--plugin-path",
                                      DDPRUN_BUILD_DIR "/tests/plugins/planted"};
    if (command == "verify") {  // bfloat16 rounds more than float32
      words.insert(words.end(),
                   {"--bound", std::count(set.begin(), set.end(), kBf16) ? "5e-2" : "1e-5"});
    }
    for (const std::string& each : set) words.insert(words.end(), {"--set", each});
    return run_ddprun(folder, words);
  }
};

TEST_P(PlantedFault, IsCaught) {
  const Planted& planted = GetParam();
  const CommandResult run = ddprun("run", planted.set);
  if (planted.caught == Caught::by_verify) {
    EXPECT_EQ(run.status, 0) << "the table says that only verify catches it\n" << run.err;
  }
  const CommandResult caught =
      planted.caught == Caught::by_run ? run : ddprun("verify", planted.set);
  EXPECT_EQ(caught.status, 1) << caught.out << caught.err;
  for (const std::string& words : planted.says) {
    EXPECT_THAT(caught.out + caught.err, HasSubstr(words));
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedFault, testing::ValuesIn(planted_faults()),
                         [](const auto& info) { return info.param.name; });

using RightStrategy = PlantedFault;

TEST_P(RightStrategy, IsProvedAndVerified) {
  ASSERT_GT(unseen_step(), 0);
  for (const char* command : {"run", "verify"}) {
    const CommandResult run = ddprun(command, GetParam().set);
    EXPECT_EQ(run.status, 0) << command << "\n" << run.out << run.err;
  }
}

INSTANTIATE_TEST_SUITE_P(
    NoFault, RightStrategy,
    testing::Values(Planted{"fp32", {kClip}}, Planted{"accumulation", {kAccumulate}},
                    Planted{"bf16_mixed", {kBf16}}, Planted{"overlap", {kOverlap, kAccumulate}},
                    Planted{"sgd", {"optimizer={name: sgd, lr: 0.05, momentum: 0.9}", kClip}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ddprun::test
