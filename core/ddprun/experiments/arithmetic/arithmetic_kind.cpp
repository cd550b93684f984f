// What arithmetic says in a table, and in a sentence below it.
#include "ddprun/experiments/arithmetic/arithmetic_kind.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
  return fmt::format("{:.0f} tokens a rank, {:.0f} in all, keep it computing", least,
                     run.median(q.least_batch));
}

}  // namespace

ArithmeticKind::ArithmeticKind(KindFile file)
    : RunnableKind({.name = "arithmetic",
                    .table_note = "On paper: nothing was measured (docs/arithmetic.md)",
                    .checks = {{"least_batch", "the least batch that of the closed formula"},
                               {"fewest_ranks", "one rank fewer does not fit"}}},
                   std::move(file)) {}

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

}  // namespace ddprun
