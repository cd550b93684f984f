// Strong and weak scaling, found in the rows themselves.
#include "ddprun/experiments/training/scaling.h"

#include <algorithm>
#include <cmath>

#include "ddprun/experiments/training/training.h"

namespace ddprun {

namespace {

using nlohmann::json;

double ranks_of(const RunStatistics& run) { return static_cast<double>(run.run().ranks.size()); }

/// Tokens of a step: of all ranks (strong), or of one (weak).
double tokens_of(const RunStatistics& run, Scaling scaling) {
  const auto tokens = run.run().work.at("tokens").get<double>();
  return scaling == Scaling::strong ? tokens : tokens / ranks_of(run);
}

json line_of(const RunStatistics& run) {
  return config_without(run, {"world.size", "train.global_batch", "train.batch_per_rank"});
}

bool same_work(const RunStatistics& a, const RunStatistics& b, Scaling scaling) {
  const double own = tokens_of(a, scaling), other = tokens_of(b, scaling);
  return std::abs(own - other) < 0.5 && own > 0;
}

/// The cheap questions first: a table may have thousands of rows.
bool scales_to(const RunStatistics& run, const RunStatistics& other, Scaling scaling) {
  return other.timed() && ranks_of(other) != ranks_of(run) && same_work(run, other, scaling) &&
         line_of(run) == line_of(other);
}

/// Over the runs of a row.
double mean_cost_ms(const RowRuns& row, Scaling scaling) {
  double sum = 0;
  for (const RunStatistics* run : row) sum += cost_ms(*run, scaling);
  return sum / static_cast<double>(row.size());
}

}  // namespace

json config_without(const RunStatistics& run, std::initializer_list<const char*> keys) {
  json config = run.run().config;
  if (!config.is_object()) return config;
  config.erase("name");
  for (const std::string key : keys) {
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) {
      config.erase(key);
    } else if (const auto section = config.find(key.substr(0, dot));
               section != config.end() && section->is_object()) {
      section->erase(key.substr(dot + 1));
    }
  }
  return config;
}

const RunStatistics* scaling_base(const RunStatistics& run,
                                  const std::vector<const RunStatistics*>& runs, Scaling scaling) {
  const RunStatistics* base = &run;
  bool swept = false;
  for (const RunStatistics* other : runs) {
    if (!scales_to(run, *other, scaling)) continue;
    swept = true;
    if (ranks_of(*other) < ranks_of(*base)) base = other;
  }
  return swept && run.timed() ? base : nullptr;
}

bool equal_ranks(const RunStatistics& a, const RunStatistics& b) {
  return a.run().ranks.front().threads == b.run().ranks.front().threads;
}

Figure efficiency(const RunStatistics& run, const std::vector<const RunStatistics*>& runs,
                  Scaling scaling) {
  const RunStatistics* base = scaling_base(run, runs, scaling);
  if (base == nullptr || !equal_ranks(run, *base)) return {};
  const bool compared = std::ranges::any_of(runs, [&](const RunStatistics* other) {
    return equal_ranks(run, *other) && scales_to(run, *other, scaling);
  });
  if (!compared) return {};
  const double own = mean_cost_ms(row_of(run, runs), scaling);
  const double least = mean_cost_ms(row_of(*base, runs), scaling);
  return own > 0 ? Figure{least / own} : Figure{};
}

double cost_ms(const RunStatistics& run, Scaling scaling) {
  const double step = run.figure(training().step_ms).value.value_or(0);
  return step * (scaling == Scaling::strong ? ranks_of(run) : 1);
}

}  // namespace ddprun
