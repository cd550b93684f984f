// The options of the sections `train:`, `execution:` and `profile:`, what follows from them,
// and whether their checkpoints can be written.
#include "ddprun/experiments/training/training_config.h"

#include <algorithm>
#include <string>

#include "ddprun/base/choice.h"
#include "ddprun/base/options.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/report_config.h"

namespace ddprun {

namespace {

constexpr double kManySequences = 1 << 24;  // far above any batch; keeps products within 64 bits
constexpr double kManySteps = 1e9;

}  // namespace

void declare_options(Options& o, TrainConfig& c) {
  o.option("global_batch", &c.global_batch,
           "sequences a step over all ranks; 0: batch_per_rank x ranks",
           {.min = 0, .max = kManySequences});
  o.option("batch_per_rank", &c.batch_per_rank,
           "sequences a step of one rank; 0: global_batch / ranks",
           {.min = 0, .max = kManySequences});
  o.option("accumulate", &c.accumulate,
           "micro-batches a step; gradients are synchronized after the last",
           {.min = 1, .max = kManySequences});
  o.option("warmup_steps", &c.warmup_steps, "steps run and recorded before measuring",
           {.min = 0, .max = kManySteps});
  o.option("steps", &c.steps, "measured steps", {.min = 1, .max = kManySteps});
  o.option("measure", &c.measure,
           "how far each step goes; forward: the loss alone, without gradients; forward_backward: "
           "gradients and their mean over the ranks, without an update");
  o.option("seed", &c.seed, "of the parameters and of the data's order", {.min = 0});
  o.option("proof_seed", &c.proof_seed,
           "of the moments and numbers of the checks; without it: drawn when the run starts",
           {.min = 0});
  o.section("eval", "the loss on held-out data, outside measured time", [&c](Options& eval) {
    eval.option("every", &c.eval.every,
                "steps between evaluations, of which one follows the last step; 0: none",
                {.min = 0, .max = kManySteps});
    eval.option("batches", &c.eval.batches,
                "batches of the size of a step's over all ranks, the same in each evaluation",
                {.min = 1, .max = kManySteps});
    eval.option("path", &c.eval.path,
                "files of held-out data, as in data.path; data.source random needs none");
  });
  o.section("sample", "text that the model writes, outside measured time", [&c](Options& sample) {
    sample.option("every", &c.sample.every,
                  "after every so many steps, and after the last; 0: never",
                  {.min = 0, .max = kManySteps});
    sample.option("prompt", &c.sample.prompt, "what it goes on with");
    sample.option("tokens", &c.sample.tokens, "how many it writes", {.min = 1, .max = kManySteps});
    sample.option("temperature", &c.sample.temperature,
                  "logits are divided by it before a token is drawn; 0: the likeliest token",
                  {.min = 0.0, .max = 1e6});
  });
  o.section(
      "checkpoint", "the state of training on disk, saved outside measured time",
      [&c](Options& checkpoint) {
        checkpoint.option("every", &c.checkpoint.every,
                          "steps from one to the next (`minutes` is by the clock); 0: not by "
                          "steps. One follows the last step if there are any",
                          {.min = 0, .max = kManySteps});
        checkpoint.option("minutes", &c.checkpoint.minutes,
                          "the same by the clock; 0: not by the clock", {.min = 0.0, .max = 1e6});
        checkpoint.option("on_signal", &c.checkpoint.on_signal,
                          "SIGUSR1 saves after the step under way; SIGTERM saves and ends");
        checkpoint.option("keep", &c.checkpoint.keep, "how many stay, the latest ones; 0: all",
                          {.min = 0, .max = kManySteps});
        checkpoint.option("keep_every", &c.checkpoint.keep_every,
                          "those of every so many steps stay too; 0: none",
                          {.min = 0, .max = kManySteps});
        checkpoint.option("async", &c.checkpoint.async,
                          "training goes on while a copy of the state is written");
        checkpoint.option("path", &c.checkpoint.path,
                          "the folder that they go to, seen from the current directory; of a "
                          "sweep a folder of its own for each point");
      });
  o.option("resume_from", &c.resume_from,
           "go on from this checkpoint, or the latest of this folder; `latest`: the latest of "
           "train.checkpoint.path, or step 0 if there is none");
}

void declare_options(Options& o, ExecutionConfig& c) {
  o.option("mode", &c.mode,
           "eager: operator by operator; cuda_graph: each step as one captured graph");
}

void declare_options(Options& o, ProfileConfig& c) {
  o.option("steps", &c.steps, "measured steps that the timeline shows, the last ones",
           {.min = 1, .max = 100});
  o.option("memory", &c.memory,
           "record what rank 0's memory is in the last warm-up step: each allocation "
           "with its phase, unit and operation, categories that add up, a picture");
  o.option(
      "operators", &c.operators,
      "record what rank 0 calls on the CPU in the last warm-up step: each operator and kernel "
      "with its phase, part of the model, calls, own time, FLOPs, bytes, share of the roofline");
  o.option("memory_snapshot", &c.memory_snapshot,
           "write the history of rank 0's GPU memory, from set-up to the last warm-up step, as a "
           "pickle for pytorch.org/memory_viz");
}

StepSpan steps_from(std::int64_t first, const TrainConfig& train) {
  const std::int64_t end = train.all_steps();
  return {first, std::min(first + train.warmup_steps, end - 1), end};
}

DataConfig TrainingConfig::eval_data() const {
  DataConfig held_out = data;
  held_out.path = train.eval.path;
  held_out.weights = {};
  held_out.order = DataOrder::random;  // runs that differ in their order are judged alike
  return held_out;
}

std::int64_t batch_per_rank(const Experiment& experiment) {
  const TrainConfig& train = training(experiment).train;
  return train.batch_per_rank > 0 ? train.batch_per_rank
                                  : train.global_batch / experiment.world.size;
}

std::int64_t micro_batch(const Experiment& experiment) {
  return batch_per_rank(experiment) / training(experiment).train.accumulate;
}

std::int64_t global_batch(const Experiment& experiment) {
  return batch_per_rank(experiment) * experiment.world.size;
}

std::int64_t micro_batches(const Experiment& experiment, std::int64_t ranks) {
  return global_batch(experiment) / (ranks * micro_batch(experiment));
}

std::int64_t first_sample(const Experiment& experiment, RankOf rank, std::int64_t micro_batch) {
  return (rank.rank * micro_batches(experiment, rank.ranks) + micro_batch) *
         ddprun::micro_batch(experiment);
}

std::uint64_t planned_hash(const Experiment& experiment, const char* key) {
  const auto found = experiment.contents.find(key);
  return found == experiment.contents.end() ? 0 : found->second;
}

void check_checkpoints(const Experiment& e, const TrainingConfig& c) {
  const CheckpointConfig& checkpoint = c.train.checkpoint;
  const bool saves = checkpoint.saves(), resumes = !c.train.resume_from.empty();
  const std::string never = said("train.checkpoint.every", "0");
  refuse_unused(e, !saves && checkpoint.keep != CheckpointConfig().keep, "train.checkpoint.keep",
                never);
  refuse_unused(e, !saves && checkpoint.async, "train.checkpoint.async", never);
  refuse_unused(e, checkpoint.keep_every > 0 && (!saves || checkpoint.keep == 0),
                "train.checkpoint.keep_every", saves ? said("train.checkpoint.keep", "0") : never);
  refuse_unused(e, !saves && !resumes && !checkpoint.path.empty(), "train.checkpoint.path", never);
  const std::string measure = said("train.measure", name_of(c.train.measure));
  const bool trains = c.train.measure == StepExtent::step;
  refuse_unused(e, saves && !trains, "train.checkpoint.every", measure);
  refuse_unused(e, resumes && !trains, "train.resume_from", measure);
  if (checkpoint.path.empty() && (saves || c.train.resume_from == kLatest)) {
    refuse(e, saves ? "train.checkpoint.every" : "train.resume_from",
           {.what = "checkpoints need a folder",
            .got = "no train.checkpoint.path",
            .expected = "train.checkpoint.path, which outlives the run",
            .hint = "train: {checkpoint: {every: 100, path: checkpoints/NAME}}"});
  }
  if (saves && read_report(e.document).repeats > 1) {
    refuse(e, "report.repeats",
           {.what = "several runs of a row would save into one folder",
            .got = "report.repeats with train.checkpoint",
            .expected = "one run of each row that saves",
            .hint = "measure without checkpoints, or save without repeats"});
  }
  if (c.execution.mode != ExecutionMode::cuda_graph || (!saves && !resumes)) return;
  refuse(e, "execution.mode",
         {.what = "checkpoints of captured steps are not there yet",
          .got = said("execution.mode", name_of(c.execution.mode)),
          .expected = "execution.mode eager",
          .hint = "nobody has resumed a captured step: remove one of them"});
}

}  // namespace ddprun
