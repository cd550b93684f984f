// One rank of one experiment: connect, build, prove, warm up, measure, prove, gather.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "ddprun/base/choice.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/comm/group/link_waits.h"
#include "ddprun/experiments/training/dry_step.h"
#include "ddprun/experiments/training/evaluation.h"
#include "ddprun/experiments/training/resumption.h"
#include "ddprun/experiments/training/run_observer.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/run_proof.h"
#include "ddprun/experiments/training/run_saver.h"
#include "ddprun/experiments/training/skew.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/live/live_outputs.h"
#include "ddprun/measure/environment.h"
#include "ddprun/measure/kernel_clock.h"
#include "ddprun/measure/phase.h"
#include "ddprun/parallel/consensus.h"
#include "ddprun/proof/proof.h"
#include "ddprun/rank/connected_rank.h"
#include "ddprun/rank/heap.h"

namespace ddprun {

namespace {

/// What a link alone would make the rank wait in the step that was made.
void add_link_waits(const StepTimeline& step, const LinkCosts& costs, Sample& sample) {
  std::vector<std::int64_t> begins_ns;
  for (const TimeSpan& phase : step.phases) {
    const bool passes = phase.name == to_string(Phase::forward) ||
                        phase.name == to_string(Phase::backward) ||
                        phase.name == to_string(Phase::optimizer);
    if (passes) begins_ns.push_back(phase.begin_ns);
  }
  const auto waits = link_waits(step.collectives, begins_ns, costs);
  if (!waits) return;
  sample[training().link_ms] = waits->bound_ms;
  sample[training().link_earliest_ms] = waits->earliest_ms;
  sample[training().link_latency_ms] = waits->latency_ms;
}

LiveRun live_run(const Experiment& experiment, std::int64_t first_step,
                 const std::filesystem::path& folder) {
  const TrainingConfig& config = training(experiment);
  const bool evaluates = config.train.eval.every > 0;
  return {.name = experiment.name,
          .row = experiment.label.empty() ? experiment.name : experiment.label,
          .run = folder.filename().string(),
          .seed = config.train.seed,
          .ranks = experiment.world.size,
          .first_step = first_step,
          .steps = config.train.all_steps(),
          .global_batch = global_batch(experiment),
          .context_length = config.model.context_length,
          .micro_batch = micro_batch(experiment),
          .accumulate = micro_batches(experiment, experiment.world.size),
          .eval_samples = evaluates ? config.train.eval.batches * global_batch(experiment) : 0,
          .optimizer = config.optimizer};
}

std::string format_of(c10::ScalarType dtype) {
  PrecisionDtypes dtypes;
  dtypes.buffers.compute = dtype;
  return dtypes.product_format();
}

LiveFormats live_formats(const Trainer& trainer) {
  const PrecisionDtypes dtypes = trainer.plugins().precision->dtypes();
  const bool gathers =
      contains(trainer.planned(), CollectiveKind::all_gather, &PlannedCollective::kind);
  const BufferDtypes& buffers = dtypes.buffers;
  const bool narrower = c10::elementSize(buffers.compute) < c10::elementSize(buffers.reduce);
  return {.products = dtypes.product_format(),
          .attention = format_of(buffers.compute),
          .communication = format_of(gathers && narrower ? buffers.compute : buffers.reduce)};
}

LiveSample live_sample(const Sample& sample, const Experiment& experiment, double lr) {
  const double step_ms = sample[training().step_ms];
  const auto tokens =
      static_cast<double>(global_batch(experiment) * training(experiment).model.context_length);
  const bool updates = training(experiment).train.measure == StepExtent::step;
  return {.step = sample.step,
          .warmup = sample.warmup,
          .loss = sample[training().loss],
          .step_ms = step_ms,
          .tokens_per_s = step_ms > 0 ? tokens / (step_ms * 1e-3) : 0,
          .lr = updates ? std::optional(lr) : std::nullopt,
          .gradient_norm = sample.find(training().gradient_norm),
          .validation_loss = sample.find(training().validation_loss),
          .bits_per_byte = sample.find(training().bits_per_byte)};
}

/// Memory of this process alone that is resident.
std::int64_t own_resident_bytes() { return proc_bytes("/proc/self/status", "RssAnon"); }

/// On the CPU *peak memory* is that of a warm-up step, so growth in measured steps is in no column.
void warn_of_growth(std::int64_t begin_bytes) {
  constexpr std::int64_t kLeast = 32'000'000;
  const std::int64_t grown = own_resident_bytes() - begin_bytes;
  if (grown < std::max(kLeast, begin_bytes / 10)) return;
  spdlog::warn("memory grew by {:.0f} MB in measured steps: peak memory is that of a warm-up step",
               static_cast<double>(grown) * 1e-6);
}

/// The words of the row's status, as far as this rank knows it.
const char* live_status(const RankResult& result) {
  if (contains(result.checks, CheckStatus::failed, &Check::status)) return "proof failed";
  const auto finite = [](const Sample& each) { return std::isfinite(each[training().loss]); };
  return std::ranges::all_of(result.samples, finite) ? kLiveOk : "diverged";
}

/// What looks at a run between its steps.
struct Watchers {
  RunObserver& observer;
  RunProof& proof;
  RunSaver& saver;
  LiveOutputs& live;
};

/// Runs all steps and collects samples. What watchers do between steps is in no time.
void measure(Trainer& trainer, const Experiment& experiment, const Watchers& watchers,
             const RunContext& context, ConnectedRank& rank) {
  const auto& [observer, proof, saver, live] = watchers;
  Evaluation evaluation(experiment, trainer, rank.group());
  Device& device = rank.device();
  RankResult& result = rank.result();
  const StepSpan& steps = trainer.steps();
  SkewAccount skew;
  std::int64_t resident_bytes = 0;  // when the measured steps began
  // The rank's CPU time at the end of the step before, without that of checks and evaluations.
  std::int64_t cpu_end_ns = process_cpu_ns() - proof.cpu_ns();
  for (std::int64_t index = steps.first; index < steps.end; ++index) {
    if (index == steps.measured) {
      const std::int64_t cpu_begin_ns = process_cpu_ns();
      device.reset_memory();
      rank.measuring_begins();
      resident_bytes = own_resident_bytes();
      cpu_end_ns += process_cpu_ns() - cpu_begin_ns;
    }
    const auto keep = proof.before_step(index);
    // Ranks start a step together; skew of one step does not leak into the next.
    rank.group().barrier("step");
    observer.before_step(index);
    proof.begin_step();
    const double outside_ms = to_ms(process_cpu_ns() - proof.cpu_ns() - cpu_end_ns);
    Sample sample = trainer.step(index, keep);
    cpu_end_ns = process_cpu_ns() - proof.cpu_ns();
    proof.end_step();
    sample[training().cpu_outside_ms] = outside_ms;
    observer.after_step(index);
    if (index == steps.first) rank.first_step_done();
    if (context.on_progress) {
      context.on_progress({index + 1, steps.end,
                           fmt::format("loss {:.3f}, {:.1f} ms/step", sample[training().loss],
                                       sample[training().step_ms])});
    }
    const double loss = sample[training().loss];
    skew.add(trainer.last_records());
    const bool kept = index + training(experiment).profile.steps >= steps.end;
    if (kept || !result.link.empty()) {
      StepTimeline timeline = trainer.timeline();
      timeline.step = index;
      add_link_waits(timeline, result.link, sample);
      if (kept) result.timeline.push_back(std::move(timeline));
    }
    result.samples.push_back(std::move(sample));
    if (index + 1 == steps.end) {  // before the proof runs collectives of its own
      rank.measuring_ends();
      // Checkpoints that are written beside training are copies, which stay.
      const bool plain =
          device.torch_device().is_cpu() && !training(experiment).train.checkpoint.async;
      if (plain && steps.measured > steps.first) warn_of_growth(resident_bytes);
      result.device_memory = device.memory();
    }
    if (proof.looks_at(index)) saver.wait_for_work();  // it looks for threads that work on
    proof.after_step(index, loss);
    if (const auto lost = proof.lost_share()) {
      result.samples.back()[training().lost_updates] = *lost;
    }
    const std::int64_t between_begin_ns = process_cpu_ns();
    if (index == steps.first && !experiment.world.emulated()) {
      result.link = measure_link(rank.group(), trainer.last_records());
    }
    const auto held_out = evaluation.after_step(index);
    if (auto text = evaluation.text_after_step(index)) {
      result.texts.push_back({index + 1, printable(*text)});
    }
    saver.after_step(index);
    if (held_out) {
      result.samples.back()[training().validation_loss] = *held_out;
      if (const auto bits = evaluation.bits_per_byte(*held_out)) {
        result.samples.back()[training().bits_per_byte] = *bits;
      }
      if (const auto distance = consensus_distance(trainer.data_parallel())) {
        result.samples.back()[training().consensus_distance] = *distance;
      }
      if (context.info.rank == 0) {
        spdlog::info("step {}: validation loss of rank 0 {:.4f}", index, *held_out);
      }
    }
    if (live.any()) {
      live.step(live_sample(result.samples.back(), experiment, trainer.last_scalars().lr));
    }
    cpu_end_ns += process_cpu_ns() - between_begin_ns;
  }
  evaluation.check_unchanged();
  skew.settle(result.samples, rank.group());
}

}  // namespace

std::vector<std::string> Training::run_rank(const Experiment& experiment,
                                            const PluginRegistry& registry,
                                            const RunContext& context) const {
  const RankInfo& info = context.info;
  ConnectedRank rank(experiment, context);
  auto resumed = Resumption::find(experiment);
  check_planned(resumed, experiment);
  const Beginning beginning = resumed ? resumed->beginning() : Beginning();
  RunObserver observer(training(experiment).profile, rank.device(),
                       observed_step(training(experiment), beginning.step),
                       info.rank == 0 ? context.folders.profile : "");
  LiveOutputs live(info.rank == 0 ? experiment.live : LiveConfig(), context.folders.live);
  live.begin(live_run(experiment, beginning.step, context.folders.live));
  rank.connect();
  RankResult& result = rank.result();
  {
    const RunPlugins plugins = make_plugins(registry, experiment);
    std::optional<LargeBlocksMapped> building(std::in_place);
    std::optional<PhaseScope> setup(std::in_place, Phase::setup);
    Trainer trainer(experiment, plugins, rank.group(), beginning);
    RunSaver saver(experiment, trainer, rank.group(), resumed ? resumed->folder() : "");
    setup.reset();
    if (info.rank == 0) spdlog::debug("data: {}", trainer.data().description());
    ProcessState told = process_state();
    told.cores = result.cores;
    told.threads = result.threads;
    RunProof proof(experiment, trainer, rank.group(), std::move(told));
    if (resumed) proof.enter_resumed(resumed->read(experiment, trainer, rank.group()));
    const bool begins = proof.begin();
    building.reset();
    if (begins) {
      give_back_freed_memory();
      live.steps_begin(live_formats(trainer));
      measure(trainer, experiment, {observer, proof, saver, live}, context, rank);
      trainer.data().check_unchanged();
      observer.add_to(result, micro_batch(experiment) * training(experiment).model.context_length);
      proof.finish();
    }
    result.checkpoints = saver.saved();
    result.checks = proof.checks();
    if (info.rank == 0) result.lost_updates = proof.lost_updates();
    result.checks_s = proof.seconds();
    live.end(live_status(result));
    result.matmul_dtype = plugins.precision->dtypes().product_format();
    result.parameter_hash = hash_parameters(trainer.data_parallel());
  }
  return rank.finish();
}

}  // namespace ddprun
