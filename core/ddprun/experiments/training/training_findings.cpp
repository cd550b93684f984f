// What rows of training say together: sentences made from their numbers, each with its test.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ddprun/base/choice.h"
#include "ddprun/base/groups.h"
#include "ddprun/experiments/training/scaling.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/result/conditions.h"
#include "ddprun/result/finding.h"

namespace ddprun {

namespace {

using nlohmann::json;
using Runs = std::vector<const RunStatistics*>;
using Rows = std::vector<RowRuns>;

/// A table of many small comparisons would have too many sentences: so many of each experiment.
constexpr std::size_t kMostOfAKind = 6;
/// Less CPU time between two steps is that of barriers and bookkeeping.
constexpr double kOutsideMs = 1, kOutsideShare = 0.05;
/// Of a warm-up in all.
constexpr double kAsleepMs = 20;
/// Of the time in which a rank waits for no collective: it has its core.
constexpr double kBusyShare = 0.5;

const Run& run_of(const RowRuns& row) { return row.front()->run(); }
const std::string& name_of(const RowRuns& row) { return row.front()->name(); }

bool is_control(const RowRuns& row) {
  return summarize_proof(run_of(row)).status == CheckStatus::control;
}

/// Whether the ranks' gradients become something else than their mean.
bool does_other_work(const RowRuns& row) {
  return is_control(row) || summarize_proof(run_of(row)).status == CheckStatus::declared;
}

/// Whether a run's times are those of a step that did what it should.
bool counts(const RunStatistics& run) {
  const CheckStatus proof = summarize_proof(run.run()).status;
  const bool proved = proof == CheckStatus::passed || proof == CheckStatus::declared ||
                      proof == CheckStatus::control;
  return run.timed() && proved && divergence(run.run()).empty();
}

double step_of(const RowRuns& row) { return mean_figure(row, training().step_ms); }
double exposed_of(const RowRuns& row) { return mean_figure(row, training().exposed_ms); }
double hidden_share(const RowRuns& row) { return mean_figure(row, training().overlapped_share); }

double tokens_of(const RowRuns& row) { return run_of(row).work.at("tokens").get<double>(); }

Comparison compare_by(const Quantity& quantity, const RowRuns& row, const RowRuns& base,
                      std::size_t chosen_from) {
  const auto figures = [&quantity](const RowRuns& of) { return run_figures(of, quantity); };
  return compare_rows(row, base, figures, chosen_from);
}

Finding finding(const char* what, const std::string& text, const RowRuns& row, const RowRuns& base,
                const Comparison& comparison) {
  json value = to_json(comparison);
  value.update({{"kind", training().name()},
                {"finding", what},
                {"row", name_of(row)},
                {"base", name_of(base)},
                {"text", text}});
  const json& config = run_of(row).config;
  return {text, std::move(value), config.is_object() ? config.value("name", "") : ""};
}

/// Rows that are compared with one of them.
struct Family {
  RowRuns base;
  Rows others;  // of the same tokens a step, in the table's order
};

void add_to(std::vector<Family>& families, const RowRuns& base, const RowRuns& row) {
  if (tokens_of(row) != tokens_of(base)) return;  // another step: its time says nothing
  const auto known = std::find_if(families.begin(), families.end(), [&](const Family& family) {
    return run_of(family.base).fingerprint == run_of(base).fingerprint;
  });
  Family& family = known != families.end() ? *known : families.emplace_back(Family{base, {}});
  family.others.push_back(row);
}

/// What speed-ups compare.
std::vector<Family> families_by_base(const Rows& rows, const Runs& runs) {
  std::vector<Family> families;
  for (const RowRuns& row : rows) {
    const std::string& wanted = run_of(row).baseline;
    if (wanted.empty() || wanted == run_of(row).fingerprint) continue;
    if (const RowRuns base = row_with(wanted, runs); !base.empty()) add_to(families, base, row);
  }
  return families;
}

/// Rows that differ in their precision alone, where speed-ups compare something else.
std::vector<Family> families_by_precision(const Rows& rows) {
  std::vector<Family> families;
  std::map<std::string, const RowRuns*> first;  // by the rest of the experiment
  for (const RowRuns& row : rows) {
    const json rest = config_without(*row.front(), {"precision"});
    if (!rest.is_object()) continue;
    const RowRuns& base = *first.emplace(rest.dump(), &row).first->second;
    if (&base == &row || run_of(row).config.at("precision") == run_of(base).config.at("precision"))
      continue;
    if (run_of(row).baseline != run_of(base).fingerprint) add_to(families, base, row);
  }
  return families;
}

/// How a row stands to the one that is next to it in time.
std::string beside_next(const RowRuns& fastest, const Family& family, const Rows& candidates) {
  if (candidates.size() < 2) return {};
  const RowRuns& next = candidates[1];
  if (run_of(next).fingerprint == run_of(family.base).fingerprint) return {};
  const std::size_t pairs = candidates.size() * (candidates.size() - 1) / 2;
  const Comparison c = compare_by(training().step_ms, fastest, next, pairs);
  return fmt::format("; it {} {}, the next{}", words_of_times(c), name_of(next), verdict(c));
}

/// The fastest row of a family beside its base. What does other work is no candidate.
Finding fastest_of(const Family& family, const char* what) {
  Rows candidates;
  if (!does_other_work(family.base)) candidates.push_back(family.base);
  for (const RowRuns& row : family.others) {
    if (!does_other_work(row)) candidates.push_back(row);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const RowRuns& a, const RowRuns& b) { return step_of(a) < step_of(b); });
  if (candidates.empty()) return {};
  const auto is_base = [&family](const RowRuns& row) {
    return run_of(row).fingerprint == run_of(family.base).fingerprint;
  };
  const bool base_wins = is_base(candidates.front());
  if (base_wins && candidates.size() < 2) return {};
  const RowRuns& row = candidates[base_wins ? 1 : 0];
  const Comparison c = compare_by(training().step_ms, row, family.base,
                                  candidates.size() - (does_other_work(family.base) ? 0 : 1));
  std::string text = name_of(row);
  if (!base_wins && candidates.size() > 2) {
    text += fmt::format(", whose step is the shortest of {},", candidates.size());
  }
  text += fmt::format(" {} {}", words_of_times(c), name_of(family.base));
  if (is_control(family.base)) text += ", which does not synchronize";
  if (base_wins && candidates.size() > 2) {
    text += fmt::format(", whose step is the shortest of {}", candidates.size());
  }
  text += verdict(c);
  if (!base_wins) text += beside_next(row, family, candidates);
  return finding(what, text, row, family.base, c);
}

void add(std::vector<Finding>& out, std::vector<Finding> found) {
  std::erase_if(found, [](const Finding& each) { return each.text.empty(); });
  std::map<std::string, std::size_t> said;  // of each experiment
  for (Finding& each : found) {
    if (++said[each.experiment] > kMostOfAKind) each.text.clear();  // its numbers are kept
    out.push_back(std::move(each));
  }
}

std::vector<Finding> fastest(const std::vector<Family>& families, const char* what) {
  std::vector<Finding> out;
  for (const Family& family : families) out.push_back(fastest_of(family, what));
  return out;
}

/// Of rows that do the same work: what the one with the least exposed communication hides of what
/// the first one exposes that hides nothing.
Finding hidden_of(const Rows& rows) {
  const RowRuns* open = nullptr;
  const RowRuns* best = nullptr;
  std::size_t candidates = 0;
  for (const RowRuns& row : rows) {
    if (does_other_work(row) || mean_figure(row, training().collectives) <= 0) continue;
    if (hidden_share(row) < Training::kObservedOverlap) {
      if (open == nullptr) open = &row;
      continue;
    }
    ++candidates;
    if (best == nullptr || exposed_of(row) < exposed_of(*best)) best = &row;
  }
  if (open == nullptr || best == nullptr || exposed_of(*open) <= 0) return {};
  const Comparison c = compare_by(training().exposed_ms, *best, *open, candidates);
  const std::string text =
      c.ratio < 1 ? fmt::format("{} hides {:.0f} % of the communication that {} exposes{}",
                                name_of(*best), (1 - c.ratio) * 100, name_of(*open), verdict(c))
                  : fmt::format("{} overlaps communication, and exposes no less of it than {}{}",
                                name_of(*best), name_of(*open), verdict(c));
  return finding("hidden_communication", text, *best, *open, c);
}

std::vector<Finding> hidden(const Rows& rows) {
  Groups<Rows> groups;
  for (const RowRuns& row : rows) {
    groups[config_without(*row.front(), {"strategy"}).dump()].push_back(row);
  }
  std::vector<Finding> out;
  for (const auto& [work, group] : groups) out.push_back(hidden_of(group));
  return out;
}

/// The efficiency of a row, if no other row of its line has more ranks.
Finding scaling_of(const RowRuns& row, const Runs& runs, Scaling scaling) {
  const RunStatistics& run = *row.front();
  const RunStatistics* base = scaling_base(run, runs, scaling);
  if (base == nullptr || base->run().ranks.size() == run.run().ranks.size()) return {};
  const bool largest = std::none_of(runs.begin(), runs.end(), [&](const RunStatistics* other) {
    return other->run().ranks.size() > run.run().ranks.size() &&
           scaling_base(*other, runs, scaling) == base;
  });
  if (!largest) return {};
  const std::string name = scaling == Scaling::strong ? "strong" : "weak";
  const std::size_t ranks = run.run().ranks.size(), fewest = base->run().ranks.size();
  if (!equal_ranks(run, *base)) {
    return {
        fmt::format("no {} efficiency: ranks are no equal parts: threads of a rank are {} in {} "
                    "and {} in {} (world.threads_per_rank sets them)",
                    name, run.run().ranks.front().threads, name_of(row),
                    base->run().ranks.front().threads, base->name())};
  }
  const RowRuns base_row = row_of(*base, runs);
  const Comparison c =
      compare_rows(base_row, row, [scaling](const RowRuns& of) { return costs_ms(of, scaling); });
  const std::string text = fmt::format(
      "{} scaling: {} ranks ({}) have {:.0f} % of the efficiency of {}{}", name, ranks,
      name_of(row), c.ratio * 100, fewest == 1 ? "one" : std::to_string(fewest), verdict(c));
  return finding((name + "_scaling").c_str(), text, row, base_row, c);
}

std::vector<Finding> scaling(const Rows& rows, const Runs& runs) {
  std::vector<Finding> out;
  for (const Scaling each : {Scaling::strong, Scaling::weak}) {
    for (const RowRuns& row : rows) out.push_back(scaling_of(row, runs, each));
  }
  return out;
}

/// The largest difference between runs of one row, as a share of their mean.
double between_runs(const RowRuns& row, const Quantity& quantity) {
  const Summary of = summarize(run_figures(row, quantity));
  return of.count > 1 && of.mean > 0 ? (of.max - of.min) / of.mean : 0;
}

/// What repeats, and what does not.
std::vector<Finding> repeated(const Rows& rows) {
  double steps = 0, exposed = 0;
  bool any = false;
  for (const RowRuns& row : rows) {
    if (row.size() < 2) continue;
    any = true;
    steps = std::max(steps, between_runs(row, training().step_ms));
    exposed = std::max(exposed, between_runs(row, training().exposed_ms));
  }
  if (!any) return {};
  std::string text =
      fmt::format("runs of one row differ by up to {:.1f} % in their step", steps * 100);
  if (exposed > 0) text += fmt::format(", and {:.1f} % in exposed communication", exposed * 100);
  text += " (largest - smallest, of the mean)";
  return {{text,
           {{"kind", training().name()},
            {"finding", "between_runs"},
            {"step", steps},
            {"exposed", exposed},
            {"text", text}}}};
}

/// The largest over the ranks of `figure`.
double largest_of_ranks(const RowRuns& row,
                        const std::function<double(const RankResult&)>& figure) {
  double largest = 0;
  for (const RunStatistics* run : row) {
    for (const RankResult& rank : run->run().ranks) largest = std::max(largest, figure(rank));
  }
  return largest;
}

/// The median over the measured steps, or over the warm-up.
double median_of(const RankResult& rank, bool warmup,
                 const std::function<double(const Sample&)>& value) {
  std::vector<double> values;
  for (const Sample& sample : rank.samples) {
    if (sample.warmup == warmup) values.push_back(value(sample));
  }
  return summarize(std::move(values)).median;
}

/// Work that is in no step's time.
std::vector<Finding> computed_outside(const Rows& rows) {
  std::vector<Finding> out;
  for (const RowRuns& row : rows) {
    const double ms = largest_of_ranks(row, [](const RankResult& rank) {
      return median_of(rank, false, [](const Sample& s) { return s[training().cpu_outside_ms]; });
    });
    if (ms < kOutsideMs || ms < kOutsideShare * step_of(row)) continue;
    out.push_back(
        {fmt::format("{} computes for {:.1f} ms between one step and the next, which is "
                     "in no step's time",
                     name_of(row), ms)});
  }
  return out;
}

/// How much of the time in which it waits for no collective a rank computes.
double computed_share(const Sample& sample) {
  const Training& q = training();
  const double waited_ms = sample.find(q.synchronize_ms).value_or(0);
  return sample[q.cpu_ms] / std::max(sample[q.step_ms] - waited_ms, 1e-3);
}

/// A warm-up that spares the machine for what is measured.
std::vector<Finding> slept(const Rows& rows) {
  std::vector<Finding> out;
  for (const RowRuns& row : rows) {
    const bool on_cpu = run_of(row).ranks.front().device_name.empty();
    const double ms = largest_of_ranks(row, [](const RankResult& rank) {
      double asleep_ms = 0;
      const double usual = std::min(1.0, median_of(rank, false, computed_share));
      if (usual < kBusyShare) return 0.0;
      for (const Sample& sample : rank.samples) {
        if (!sample.warmup || computed_share(sample) > usual / 2) continue;
        asleep_ms += sample[training().step_ms] - sample[training().cpu_ms];
      }
      return asleep_ms;
    });
    if (!on_cpu || ms < kAsleepMs || ms < step_of(row)) continue;
    out.push_back(
        {fmt::format("a rank of {} slept for {:.0f} ms in warm-up steps: the machine "
                     "rested before what is measured",
                     name_of(row), ms)});
  }
  return out;
}

/// Why a precision that should be faster is not.
std::vector<Finding> widened(const Rows& rows) {
  const auto wide = std::ranges::find_if(rows, [](const RowRuns& row) {
    const RankResult& rank = run_of(row).ranks.front();
    const auto path = choice_of<kernels::ProductPath>(rank.products);
    return path == kernels::ProductPath::float32 && rank.matmul_dtype == "bfloat16" &&
           rank.device_name.empty();
  });
  if (wide == rows.end()) return {};
  return {
      {"products of bfloat16 run as float32 on this CPU, which has no instructions for them: "
       "bfloat16 saves memory, and no time"}};
}

}  // namespace

std::vector<Finding> Training::findings(const Runs& all) const {
  Runs runs;
  for (const RunStatistics* run : all) {
    if (counts(*run)) runs.push_back(run);
  }
  const Rows rows = by_row(runs);
  std::vector<Finding> out;
  add(out, fastest(families_by_base(rows, runs), "fastest"));
  add(out, fastest(families_by_precision(rows), "precision"));
  add(out, widened(rows));
  add(out, computed_outside(rows));
  add(out, slept(rows));
  add(out, hidden(rows));
  add(out, scaling(rows, runs));
  add(out, repeated(rows));
  return out;
}

}  // namespace ddprun
