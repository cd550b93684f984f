// Settings of training that contradict each other, or that would be ignored: with the arithmetic.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddprun/base/choice.h"
#include "ddprun/base/error.h"
#include "ddprun/base/text.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/plain_scalar.h"
#include "ddprun/config/sweep.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/model/recompute_config.h"
#include "ddprun/optim/parameter_groups.h"

namespace ddprun {

namespace {

void check_model(const Experiment& e, const TrainingConfig& c) {
  const ModelConfig& m = c.model;
  const std::string got =
      "d_model " + std::to_string(m.d_model) + ", heads " + std::to_string(m.heads);
  const std::string given = at_path(e.document, "model.heads") ? "model.heads" : "model.d_model";
  refuse_if(e, m.d_model % m.heads != 0, given,
            {.what = "model.heads does not divide model.d_model",
             .got = got,
             .expected = "d_model a multiple of heads",
             .hint = "change one of the two"});
  refuse_if(e, m.positions == Positions::rope && m.head_dim() % 2 != 0, given,
            {.what = "the dimension of a head must be even: RoPE rotates pairs",
             .got = got + ": " + std::to_string(m.head_dim()) + " a head",
             .expected = "d_model / heads even",
             .hint = "change d_model or heads"});
  refuse_unused(e, m.positions != Positions::rope && m.rope_theta != ModelConfig().rope_theta,
                "model.rope_theta", said("model.positions", name_of(m.positions)));
  const std::string beyond = m.beyond_fused();
  refuse_if(e, !beyond.empty() && m.kernels == KernelSet::fused, "model." + beyond,
            {.what = "the fused kernels compute the course's block alone",
             .got = "model." + beyond + " beside model.kernels fused",
             .expected = "RMSNorm, RoPE, SwiGLU, no biases, and q, k and v one by one",
             .hint = "model: {kernels: reference}"});
  if (!m.frozen.empty()) {
    with_place(origin_of(e.document, "model.frozen"), [&] { model_parameters(m); });
  }
  refuse_unused(e, !m.frozen.empty() && c.train.measure == StepExtent::forward, "model.frozen",
                said("train.measure", name_of(c.train.measure)));
}

/// The batch of all ranks, or of one, must split into micro-batches.
void check_divisible(const Experiment& e, const std::string& key, std::int64_t batch,
                     std::int64_t divisor, const std::string& parts) {
  if (batch % divisor == 0) return;
  const std::int64_t above = (batch / divisor + 1) * divisor;
  const std::int64_t below = above - divisor;
  refuse(e, key,
         {.what = key + " " + std::to_string(batch) + " is not divisible by " + parts,
          .got = std::to_string(batch),
          .expected = "a multiple of " + std::to_string(divisor),
          .hint = (below > 0 ? "the nearest are " + std::to_string(below) + " and "
                             : "the nearest is ") +
                  std::to_string(above)});
}

void check_batch(const Experiment& e, const TrainingConfig& c) {
  const TrainConfig& t = c.train;
  const bool global = t.global_batch > 0;
  refuse_if(e, global == (t.batch_per_rank > 0), "train",
            {.what = "train must give the batch exactly once",
             .got = global ? "global_batch " + std::to_string(t.global_batch) +
                                 " and batch_per_rank " + std::to_string(t.batch_per_rank)
                           : "neither global_batch nor batch_per_rank",
             .expected = "global_batch (over all ranks) or batch_per_rank",
             .hint = global ? "remove one of them" : "train: {global_batch: 8}"});
  const std::string accumulation = std::to_string(t.accumulate) + " accumulation";
  if (global) {
    check_divisible(e, "train.global_batch", t.global_batch, e.world.size * t.accumulate,
                    counted(e.world.size, "rank") + " x " + accumulation);
  } else {
    check_divisible(e, "train.batch_per_rank", t.batch_per_rank, t.accumulate, accumulation);
  }
}

void check_schedule(const Experiment& e, const TrainingConfig& c) {
  const ScheduleConfig& schedule = c.optimizer.schedule;
  const std::int64_t steps = c.train.all_steps();
  refuse_if(
      e, schedule.warmup_steps > steps, "optimizer.schedule.warmup_steps",
      {.what = "the learning rate would never finish its warm-up",
       .got = std::to_string(schedule.warmup_steps) + " warm-up steps of the schedule",
       .expected = "at most the " + std::to_string(steps) +
                   " steps of the run (train.warmup_steps " + std::to_string(c.train.warmup_steps) +
                   " + train.steps " + std::to_string(c.train.steps) + ")",
       .hint = "lower it, or train longer"});
  refuse_if(e, schedule.min_lr > c.optimizer.lr, "optimizer.schedule.min_lr",
            {.what = "optimizer.schedule.min_lr is above optimizer.lr",
             .got = number_text(schedule.min_lr),
             .expected = "at most " + number_text(c.optimizer.lr),
             .hint = "lr is the schedule's highest rate"});
}

void check_optimizer(const Experiment& e, const TrainingConfig& c) {
  const OptimizerConfig& o = c.optimizer;
  const OptimizerConfig defaults;
  refuse_if(e, o.betas.size() != 2, "optimizer.betas",
            {.what = "optimizer.betas must hold two numbers",
             .got = fmt::format("[{}]", fmt::join(o.betas, ", ")),
             .expected = "two numbers",
             .hint = "write both, as in [0.9, 0.95]"});
  const std::string name = said("optimizer.name", name_of(o.name));
  const bool adamw = o.name == OptimizerKind::adamw;
  refuse_unused(e, adamw && o.momentum != defaults.momentum, "optimizer.momentum", name);
  refuse_unused(e, !adamw && o.betas != defaults.betas, "optimizer.betas", name);
  refuse_unused(e, !adamw && o.eps != defaults.eps, "optimizer.eps", name);
  const bool constant = o.schedule.name == Schedule::constant;
  const std::string schedule = said("optimizer.schedule.name", name_of(o.schedule.name));
  refuse_unused(e, constant && o.schedule.min_lr != 0, "optimizer.schedule.min_lr", schedule);
  if (!o.groups.empty()) {
    with_place(origin_of(e.document, "optimizer.groups"),
               [&] { group_settings(trained_names(c.model), o); });
  }
  refuse_if(e, o.overlap && o.clip_norm > 0, "optimizer.overlap",
            {.what = "optimizer.overlap cannot run with optimizer.clip_norm",
             .got = "clip_norm " + number_text(o.clip_norm),
             .expected = "clip_norm 0",
             .hint = "clipping needs the norm of all gradients before the first update: "
                     "remove one of them"});
}

void check_data(const Experiment& e, const TrainingConfig& c) {
  const std::string source = said("data.source", name_of(c.data.source));
  const bool random = c.data.source == DataKind::random;
  refuse_if(e, !random && c.data.path.empty(), "data.source",
            {.what = source + " needs data.path",
             .got = "no path",
             .expected = "a file or folder, or a list of them",
             .hint = "add `path:` under `data:`"});
  refuse_if(e, c.data.source == DataKind::text && c.model.vocab_size < 256, "model.vocab_size",
            {.what = "text is read as bytes, which need a vocabulary of 256",
             .got = "model.vocab_size " + std::to_string(c.model.vocab_size),
             .expected = ">= 256",
             .hint = "raise model.vocab_size"});
  refuse_unused(e, random && !c.data.path.empty(), "data.path", source);
  refuse_if(e, !c.data.weights.empty() && c.data.weights.size() != c.data.path.size(),
            "data.weights",
            {.what = "data.weights has not one number for each path",
             .got = counted(std::ssize(c.data.weights), "weight") + " of " +
                    counted(std::ssize(c.data.path), "path"),
             .expected = "as many weights as data.path has entries",
             .hint = "a path with wildcards is one entry"});
  refuse_unused(e, random && c.data.order != DataOrder::random, "data.order", source);
  const std::string document_end = "data.document_end";
  refuse_unused(e, random && c.data.document_end >= 0, document_end, source);
  refuse_if(e, c.data.document_end >= 0 && c.execution.mode == ExecutionMode::cuda_graph,
            document_end,
            {.what = "a captured step cannot tell documents apart yet",
             .got = "data.document_end beside execution.mode cuda_graph",
             .expected = "execution.mode eager: how many targets count differs from step to step",
             .hint = "execution: {mode: eager}"});
  const bool types = c.data.source == DataKind::tokens;
  refuse_unused(e, !types && c.data.token_type != DataConfig().token_type, "data.token_type",
                source);
  refuse_unused(e, !types && !c.data.tokenizer.empty(), "data.tokenizer", source);
}

void check_eval(const Experiment& e, const TrainingConfig& c) {
  const EvalConfig& eval = c.train.eval;
  const std::string path = "train.eval.path";
  if (eval.every == 0) {
    const std::string never = said("train.eval.every", "0");
    refuse_unused(e, eval.batches != EvalConfig().batches, "train.eval.batches", never);
    refuse_unused(e, !eval.path.empty(), path, never);
    return;
  }
  refuse_unused(e, c.train.measure != StepExtent::step, "train.eval.every",
                said("train.measure", name_of(c.train.measure)));
  const std::string source = said("data.source", name_of(c.data.source));
  const bool random = c.data.source == DataKind::random;
  refuse_unused(e, random && !eval.path.empty(), path, source);
  refuse_if(e, !random && eval.path.empty(), "train.eval",
            {.what = "train.eval needs data that is not trained on",
             .got = source + ", no train.eval.path",
             .expected = "a file or folder, or a list of them",
             .hint = "add `path:` under `eval:`"});
}

void check_recompute(const Experiment& e, const TrainingConfig& c) {
  const std::string key = "model.recompute";
  with_place(origin_of(e.document, key),
             [&] { recompute_plan(c.model.recompute, c.model.layers); });
  if (c.model.recompute.none()) return;
  refuse_unused(e, c.train.measure == StepExtent::forward, key,
                said("train.measure", name_of(c.train.measure)));
  refuse_if(
      e, c.execution.mode == ExecutionMode::cuda_graph, key,
      {.what = "model.recompute cannot run with execution.mode cuda_graph",
       .got = to_string(c.model.recompute),
       .expected = "model.recompute none",
       .hint = "a captured backward cannot put the random generator back to where the forward "
               "was: remove one of them"});
}

// Moments are made in the first step, so the one that is recorded is not it.
void check_recorded_step(const Experiment& e, const TrainingConfig& c, const std::string& key) {
  refuse_if(
      e, c.train.warmup_steps < 2, key,
      {.what = "a warm-up step behind the first is recorded, as the first makes the optimizer's "
               "moments",
       .got = said("train.warmup_steps", std::to_string(c.train.warmup_steps)),
       .expected = "at least 2",
       .hint = "raise train.warmup_steps, or remove the option"});
}

void check_recorders(const Experiment& e, const TrainingConfig& c) {
  if (c.profile.memory) check_recorded_step(e, c, "profile.memory");
  if (!c.profile.operators) return;
  check_recorded_step(e, c, "profile.operators");
  refuse_if(e, e.world.device != DeviceKind::cpu, "profile.operators",
            {.what = "operators are recorded on the CPU alone",
             .got = said("world.device", name_of(e.world.device)),
             .expected = "world.device cpu",
             .hint = "on a GPU Nsight Systems shows the kernels, and profile.memory records what "
                     "they compute in"});
  refuse_if(
      e, c.profile.memory, "profile.operators",
      {.what = "operators would be timed in the step that the record of its memory slows down",
       .got = "profile.memory and profile.operators",
       .expected = "one of them",
       .hint = "run the experiment once with each"});
}

// What would be asked for and not written.
void check_profile(const Experiment& e, const TrainingConfig& c) {
  refuse_if(e, c.profile.steps > c.train.steps, "profile.steps",
            {.what = "profile.steps is more than the measured steps",
             .got = std::to_string(c.profile.steps),
             .expected = "at most " + said("train.steps", std::to_string(c.train.steps)),
             .hint = "lower it, or raise train.steps"});
  if (!c.profile.memory_snapshot) return;
  const std::string snapshot = "profile.memory_snapshot";
  refuse_if(e, e.world.device == DeviceKind::cpu, snapshot,
            {.what = snapshot + " is the history of a GPU's allocator",
             .got = "world.device cpu",
             .expected = "world.device cuda",
             .hint = "memory by phase is in every result, on the CPU too"});
  refuse_if(e, c.train.warmup_steps == 0, snapshot,
            {.what = snapshot + " records warm-up steps, and there are none",
             .got = "train.warmup_steps 0",
             .expected = "at least 1",
             .hint = "raise train.warmup_steps, or remove the option"});
}

// A graph is captured from a step of the warm-up, after some that were eager.
void check_execution(const Experiment& e, const TrainingConfig& c) {
  if (c.execution.mode != ExecutionMode::cuda_graph) return;
  refuse_if(e, e.world.device != DeviceKind::cuda, "execution.mode",
            {.what = "execution.mode cuda_graph is of GPUs",
             .got = said("world.device", name_of(e.world.device)),
             .expected = "world.device cuda",
             .hint = "set `mode: eager` under `execution:`"});
  const std::int64_t least = ExecutionConfig::kEagerSteps + 1;
  refuse_if(e, c.train.warmup_steps < least, "train.warmup_steps",
            {.what = "execution.mode cuda_graph needs warm-up steps: the graph is captured in one",
             .got = std::to_string(c.train.warmup_steps),
             .expected = "at least " + std::to_string(least),
             .hint = "raise train.warmup_steps"});
}

std::vector<OptionInfo> listed(OptimizerConfig config) {
  return list_options([&config](Options& options) { declare_options(options, config); });
}

// Options of an update, where there is none.
void check_update(const Experiment& e, const TrainingConfig& c) {
  const StepExtent extent = c.train.measure;
  if (extent == StepExtent::step) return;
  const std::string measure = said("train.measure", name_of(extent));
  const std::vector<OptionInfo> given = listed(c.optimizer), defaults = listed({});
  for (std::size_t i = 0; i < given.size(); ++i) {
    // A listed value is exact: numbers read back as the same.
    const bool changed = given[i].default_value != defaults[i].default_value;
    refuse_unused(e, changed, "optimizer." + given[i].key, measure);
  }
}

void check_sample(const Experiment& e, const TrainingConfig& c) {
  const SampleConfig& sample = c.train.sample;
  if (sample.every == 0) {
    const std::string never = said("train.sample.every", "0");
    refuse_unused(e, sample.prompt != SampleConfig().prompt, "train.sample.prompt", never);
    refuse_unused(e, sample.tokens != SampleConfig().tokens, "train.sample.tokens", never);
    refuse_unused(e, sample.temperature != SampleConfig().temperature, "train.sample.temperature",
                  never);
    return;
  }
  const bool text = c.data.source == DataKind::text || !c.data.tokenizer.empty();
  refuse_if(e, !text || sample.prompt.empty(), "train.sample",
            {.what = "train.sample writes text, behind a prompt",
             .got = said("data.source", name_of(c.data.source)) + ", a prompt of " +
                    std::to_string(sample.prompt.size()) + " bytes",
             .expected = "data.source text, or tokens with data.tokenizer, and a prompt",
             .hint = "data.tokenizer names the tokenizer.json of token files"});
}

// Without gradients nothing is exchanged, so that no strategy could be told from another.
void check_forward_alone(const Experiment& e, const TrainingConfig& c) {
  refuse_if(e, c.train.measure == StepExtent::forward && e.world.size > 1, "train.measure",
            {.what = "train.measure forward has no gradients to exchange between ranks",
             .got = "world.size " + std::to_string(e.world.size),
             .expected = "world.size 1",
             .hint = "or train.measure forward_backward, which exchanges them"});
}

}  // namespace

void Training::check(const Experiment& experiment) const {
  for (const auto check :
       {check_model, check_recompute, check_data, check_eval, check_update, check_optimizer,
        check_forward_alone, check_batch, check_schedule, check_recorders, check_profile,
        check_execution, check_sample, check_checkpoints}) {
    check(experiment, training(experiment));
  }
}

}  // namespace ddprun
