// The figures of a training run that follow from its statistics.
#include "ddprun/experiments/training/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ddprun/base/text.h"
#include "ddprun/experiments/training/scaling.h"
#include "ddprun/measure/device_peak.h"
#include "ddprun/measure/phase.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

namespace {

double median_step_ms(const RunStatistics& run) { return run.median(training().step_ms); }

Figure quotient(double above, double below) { return below > 0 ? Figure{above / below} : Figure{}; }

Figure per_second(const RunStatistics& run, const char* work) {
  return quotient(run.run().work.at(work).get<double>(), median_step_ms(run) * 1e-3);
}

bool communicates(const RunStatistics& run) { return run[training().collectives].steps.mean > 0; }

}  // namespace

Training::Training(KindFile file)
    : RunnableKind(
          {.name = "training",
           .table_note =
               "Times in milliseconds: median over the measured steps (± standard deviation)",
           .memory_hint = "a smaller batch, context or model",
           .checks = {{"integer_gradients", "integer gradients averaged exactly"},
                      {"initial_parameters_equal", "parameters equal on all ranks at the start"},
                      {"parameters_equal", "parameters equal on all ranks at the end"},
                      {"compute_copy", "the model reads these parameters"},
                      {"attention_computed", "attention as in float64"},
                      {"gradients_computed", "gradients as by PyTorch's operators"},
                      {"products_format", "products in the declared format"},
                      {"gradients_averaged", "training's gradients averaged"},
                      {"loss_scaled_back", "the loss scaled back"},
                      {"parameters_updated", "updates are the optimizer's"},
                      {"optimizer_computed", "the optimizer as in float64"},
                      {"samples_read", "each sample of a step read once"},
                      {"rest_after_steps", "nothing works on after a step"},
                      {"clock_agrees", "the clock is the kernel's"},
                      {"step_scalars_equal", "learning rate and clipping as told in each step"},
                      {"resumed", "begun with what the checkpoint holds"},
                      {"parameters_unchanged", "parameters as they were at the start"},
                      {"loss_again", "the loss computed again"},
                      {"loss_computed", "the loss as by PyTorch's operators"},
                      {"process_as_told", "threads, cores and settings as told"},
                      {"collectives_as_planned", "collectives as planned"}}},
          std::move(file)) {}

std::string Training::in_short(const RunStatistics& run) const {
  const double last_loss = run[loss].last;
  if (!run.timed()) return fmt::format("emulated, loss {:.3f}", last_loss);
  return fmt::format("{:.1f} ms/step, loss {:.3f}", median_step_ms(run), last_loss);
}

Figure Training::find_exposed_share(const RunStatistics& run) {
  if (run[training().exposed_ms].steps.count == 0) return {};  // a forward alone
  return quotient(run.median(training().exposed_ms), median_step_ms(run));
}

Figure Training::find_overlapped_share(const RunStatistics& run) {
  return quotient(run[training().overlapped_ms].steps.mean,
                  run[training().communication_ms].steps.mean);
}

Figure Training::find_contention(const RunStatistics& run,
                                 const std::vector<const RunStatistics*>& runs) {
  if (!run.timed() || !communicates(run)) return {};
  const auto backward = [&runs](const RunStatistics& of) {
    return mean_figure(row_of(of, runs), training().backward_ms);
  };
  Figure figure;
  for (const RunStatistics* control : runs) {
    if (!control->timed() || communicates(*control)) continue;
    if (config_without(*control, {"strategy"}) != config_without(run, {"strategy"})) continue;
    figure.value = backward(run) - backward(*control);
  }
  return figure;
}

Figure Training::find_tokens_per_s(const RunStatistics& run) { return per_second(run, "tokens"); }

Figure Training::find_s_per_million_tokens(const RunStatistics& run) {
  return quotient(1e6, find_tokens_per_s(run).value.value_or(0));
}

Figure Training::find_samples_per_s(const RunStatistics& run) {
  return per_second(run, "sequences");
}

Figure Training::find_tflops(const RunStatistics& run) {
  Figure figure = per_second(run, "flops");
  if (figure.value) *figure.value *= 1e-12 / static_cast<double>(run.run().ranks.size());
  return figure;
}

Figure Training::find_mfu(const RunStatistics& run) {
  if (!run.timed()) return {{}, "the ranks shared one GPU"};
  const std::vector<RankResult>& ranks = run.run().ranks;
  const RankResult& first = ranks.front();
  const bool alike = std::ranges::all_of(ranks, [&first](const RankResult& rank) {
    return rank.device_name == first.device_name && rank.matmul_dtype == first.matmul_dtype;
  });
  if (!alike) return {{}, "the ranks' devices differ"};
  const DevicePeak peak = device_peak(first.device_name, first.matmul_dtype);
  const Figure tflops = find_tflops(run);
  if (peak.flops <= 0 || !tflops.value) return {{}, peak.refusal};
  return {*tflops.value * 1e12 / peak.flops};
}

Figure Training::find_peak_memory(const RunStatistics& run) {
  Figure figure;
  for (const PhaseMemory& each : highest_memory(run.run())) {
    // Building the model takes twice its weights, which is more than a forward alone.
    if (each.phase == to_string(Phase::setup)) continue;
    const auto bytes = static_cast<double>(each.memory.peak_allocated_bytes);
    if (bytes > figure.value.value_or(0)) figure = {bytes, each.phase};
  }
  return figure;
}

Figure Training::find_first_step_done_s(const RunStatistics& run) {
  double last = 0;
  for (const RankResult& rank : run.run().ranks) last = std::max(last, rank.first_step_done_s);
  return {last};
}

std::string Training::overlap_text(double share) {
  return share < kObservedOverlap ? "no" : percent_text(share) + " %";
}

std::string Training::thousands_text(double value) { return with_thousands(std::llround(value)); }

std::string Training::tflops_text(double value) {
  return text_as(value >= 100 ? "{:.0f}" : value >= 1 ? "{:.1f}" : "{:.3f}")(value);
}

std::string Training::count_text(double value) {
  return fmt::format("{:.{}f}", value, value == std::floor(value) ? 0 : 1);
}

}  // namespace ddprun
