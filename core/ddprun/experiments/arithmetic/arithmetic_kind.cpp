// What arithmetic's file says, what is refused, the one rank that computes it, and what a table and
// a sentence below it say.
#include "ddprun/experiments/arithmetic/arithmetic_kind.h"

#include <fmt/format.h>

#include <cmath>

#include "ddprun/base/text.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/experiments/arithmetic/mesh.h"
#include "ddprun/rank/connected_rank.h"
#include "ddprun/result/finding.h"
#include "ddprun/result/run_statistics.h"

namespace ddprun {

namespace {

/// What limits a forward of that batch; empty: no batch is given.
std::string bound_of(const RunStatistics& run) {
  const ArithmeticKind& q = arithmetic();
  if (run[q.compute_ms].steps.count == 0) return {};
  const double compute = run.median(q.compute_ms);
  const double data = run.median(q.data_ms), tensor = run.median(q.tensor_ms);
  if (compute >= data && compute >= tensor) return "bound by computing";
  return data >= tensor ? "bound by FSDP's communication" : "bound by TP's communication";
}

std::string batch_words(const RunStatistics& run) {
  const ArithmeticKind& q = arithmetic();
  const double least = run.median(q.least_tokens);
  if (least == 0) return "no batch is large enough: TP is too wide";
  return fmt::format("{} a rank, {:.0f} in all, {} it computing",
                     counted(std::llround(least), "token"), run.median(q.least_batch),
                     run.median(q.least_batch) == 1 ? "keeps" : "keep");
}

void refuse_missing(const Experiment& e, bool missing, const char* key) {
  refuse_if(
      e, missing, std::string("arithmetic.") + key,
      {.what = fmt::format("arithmetic.{} is missing", key),
       .got = "nothing to compute with",
       .expected = "a number above 0",
       .hint = "`ddprun describe arithmetic` shows all keys; docs/arithmetic.md has examples"});
}

void add_memory(const ArithmeticConfig& c, Sample& sample, RankResult& result) {
  const ArithmeticKind& q = arithmetic();
  const double state = state_bytes(c.stack());
  const double saved =
      static_cast<double>(c.element_bytes) * c.stack().activations(static_cast<double>(c.tokens));
  const double memory = c.memory_gb * 1e9;
  const double fewest = fewest_ranks(state, saved, c.sharded_activations, memory);
  sample[q.parameters] = c.stack().parameters() * 1e-9;
  sample[q.state_gb] = state * 1e-9;
  sample[q.activations_gb] = saved * 1e-9;
  sample[q.devices] = (state + saved) / memory;
  sample[q.rank_gb] = sharded_bytes(state, saved, c.sharded_activations, c.mesh().ranks()) * 1e-9;
  sample[q.fewest_ranks] = fewest;
  const auto fits = [&](double ranks) {
    return sharded_bytes(state, saved, c.sharded_activations, ranks) < memory;
  };
  const bool right = fewest == 0 ? (1 - c.sharded_activations) * saved >= memory
                                 : fits(fewest) && (fewest == 1 || !fits(fewest - 1));
  result.checks.push_back(make_check("fewest_ranks", right, counted(std::llround(fewest), "rank")));
}

void add_times(const ArithmeticConfig& c, Sample& sample) {
  const ArithmeticKind& q = arithmetic();
  const auto times = forward_times(c.stack(), c.mesh(), c.machine(), static_cast<double>(c.tokens));
  sample[q.compute_ms] = times.compute * 1e3;
  sample[q.data_ms] = times.data * 1e3;
  sample[q.tensor_ms] = times.tensor * 1e3;
  sample[q.overlapped_efficiency] = 100 * times.compute / times.overlapped();
  sample[q.exposed_efficiency] = 100 * times.compute / times.in_turn();
  sample[q.most_data_ranks] =
      most_data_ranks(c.stack(), c.mesh(), c.machine(), static_cast<double>(c.tokens));
}

void add_batch(const ArithmeticConfig& c, Sample& sample, RankResult& result) {
  const ArithmeticKind& q = arithmetic();
  const double least = least_tokens_a_rank(c.stack(), c.mesh(), c.machine());
  sample[q.least_tokens] = least;
  sample[q.least_batch] = least * c.mesh().ranks();
  sample[q.least_of_any_mesh] = least_tokens_of_any_mesh(c.stack(), c.mesh(), c.machine());
  Machine book = c.machine();
  book.asymptotic = true;
  const double searched = least_tokens_a_rank(c.stack(), c.mesh(), book);
  const double formula = least_tokens_by_formula(c.stack(), c.mesh(), book);
  result.checks.push_back(
      make_check("least_batch", std::abs(searched - formula) <= 1,
                 fmt::format("{} a rank by search, {:.0f} by the formula",
                             counted(std::llround(searched), "token"), formula)));
}

}  // namespace

ArithmeticKind::ArithmeticKind()
    : RunnableKind({.name = "arithmetic",
                    .table_note = "On paper: nothing was measured (docs/arithmetic.md)",
                    .checks = {{"least_batch", "the least batch that of the closed formula"},
                               {"fewest_ranks", "one rank fewer does not fit"}}},
                   {.own = ArithmeticConfig(),
                    .sections = {world_section(),
                                 own_section<ArithmeticConfig>(
                                     "arithmetic", "a stack of linear layers on a mesh of ranks"),
                                 output_section()}}) {}

const Quantity& ArithmeticKind::on_paper(const char* key, const char* title, const char* format,
                                         const char* meaning, int drop_order) {
  return declare(key, "", meaning,
                 {.optional = true,
                  .title = title,
                  .drop_order = drop_order,
                  .timed = false,
                  .text = text_as(format)});
}

std::string ArithmeticKind::in_short(const RunStatistics& run) const {
  return fmt::format("{:.2f}e9 parameters, on paper", run.median(parameters));
}

std::vector<Finding> ArithmeticKind::findings(const std::vector<const RunStatistics*>& runs) const {
  std::vector<Finding> out;
  for (const RunStatistics* run : runs) {
    const std::string bound = bound_of(*run);
    out.push_back({fmt::format("on paper, {}: {}{}{}", run->name(), bound,
                               bound.empty() ? "" : "; ", batch_words(*run)),
                   {{"kind", name()},
                    {"bound", bound},
                    {"least_tokens", run->median(least_tokens)},
                    {"least_batch", run->median(least_batch)}}});
  }
  return out;
}

void ArithmeticKind::check(const Experiment& experiment) const {
  const auto& c = experiment.as<ArithmeticConfig>();
  refuse_missing(experiment, c.d_model == 0, "d_model");
  refuse_missing(experiment, c.d_ff == 0, "d_ff");
  refuse_missing(experiment, c.layers == 0, "layers");
  refuse_missing(experiment, c.tflops == 0, "tflops");
  refuse_missing(experiment, c.link_gb_per_s == 0, "link_gb_per_s");
  refuse_several_ranks(experiment,
                       {.what = "experiment arithmetic is of one rank: others would repeat it",
                        .hint = "data_ranks and tensor_ranks are the ranks on paper"});
}

std::vector<std::string> ArithmeticKind::run_rank(const Experiment& experiment,
                                                  const PluginRegistry&,
                                                  const RunContext& context) const {
  ConnectedRank rank(experiment, context);
  const auto& config = experiment.as<ArithmeticConfig>();
  return rank.run_once([&](Sample& sample) {
    add_memory(config, sample, rank.result());
    if (config.tokens > 0) add_times(config, sample);
    add_batch(config, sample, rank.result());
  });
}
const ArithmeticKind& arithmetic() {
  static const ArithmeticKind kind;
  return kind;
}

}  // namespace ddprun
