// What ranks of a row did beside what is measured.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numbers>
#include <string>

#include "ddprun/base/choice.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/experiments/training_findings/training_findings.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/result/run_load.h"

namespace ddprun::training_findings {

namespace {

/// Less CPU time between two steps is that of barriers and bookkeeping.
constexpr double kOutsideMs = 1, kOutsideShare = 0.05;
/// Of a warm-up in all.
constexpr double kAsleepMs = 20;
/// Of a row's time, which is that of its steps and of its checks.
constexpr double kCheckBudget = 0.1;
/// Of the time in which a rank waits for no collective: it has its core.
constexpr double kBusyShare = 0.5;

double largest_of_ranks(const RowRuns& row,
                        const std::function<double(const RankResult&)>& figure) {
  double largest = 0;
  for (const RunStatistics* run : row) {
    for (const RankResult& rank : run->run().ranks) largest = std::max(largest, figure(rank));
  }
  return largest;
}

/// The median over the measured steps.
double median_of(const RankResult& rank, const std::function<double(const Sample&)>& value) {
  std::vector<double> values;
  for (const Sample& sample : rank.samples) {
    if (!sample.warmup) values.push_back(value(sample));
  }
  return summarize(std::move(values)).median;
}

/// Work that is in no step's time.
std::vector<Finding> computed_outside(const Rows& rows) {
  std::vector<Finding> out;
  for (const RowRuns& row : rows) {
    const double ms = largest_of_ranks(row, [](const RankResult& rank) {
      return median_of(rank, [](const Sample& s) { return s[training().cpu_outside_ms]; });
    });
    if (ms < kOutsideMs || ms < kOutsideShare * step_of(row)) continue;
    out.push_back(
        {fmt::format("{} computes for {:.1f} ms between one step and the next, which is "
                     "in no step's time",
                     name_of(row), ms)});
  }
  return out;
}

struct CheckTime {
  const RowRuns* row = nullptr;
  double seconds = 0, share = 0;
};

/// Of the rank of which checks were the largest part, over all rows.
CheckTime largest_check_time(const Rows& rows) {
  CheckTime most;
  for (const RowRuns& row : rows) {
    for (const RunStatistics* run : row) {
      for (const RankResult& rank : run->run().ranks) {
        double all_s = rank.checks_s;
        for (const Sample& sample : rank.samples) all_s += sample[training().step_ms] * 1e-3;
        if (rank.checks_s <= most.share * all_s) continue;
        most = {&row, rank.checks_s, rank.checks_s / all_s};
      }
    }
  }
  return most;
}

/// What the proofs cost, which is in no step's time.
std::vector<Finding> checked(const Rows& rows) {
  const CheckTime time = largest_check_time(rows);
  if (time.row == nullptr) return {};
  const std::string text = fmt::format(
      "checks took {:.2g} s of {}, {:.1f} % of its time{} (budget: {:.0f} %{})", time.seconds,
      name_of(*time.row), 100 * time.share, rows.size() > 1 ? ", the most of all rows" : "",
      100 * kCheckBudget, time.share > kCheckBudget ? ", which more steps would keep" : "");
  return {finding("checks", text, *time.row,
                  {{"seconds", time.seconds}, {"share", time.share}, {"budget", kCheckBudget}})};
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
      const double usual = std::min(1.0, median_of(rank, computed_share));
      if (usual < kBusyShare) return 0.0;
      for (const Sample& sample : rank.samples) {
        if (!sample.warmup || computed_share(sample) > usual / 2) continue;
        asleep_ms += sample[training().step_ms] - sample[training().cpu_ms];
      }
      return asleep_ms;
    });
    if (!on_cpu || ms < kAsleepMs || ms < step_of(row)) continue;
    const bool busy = load_of(run_of(row)).others.value_or(0) >= RunLoad::kBusy;
    out.push_back(
        {fmt::format("a rank of {} slept for {:.0f} ms in warm-up steps: the machine "
                     "rested before what is measured{}",
                     name_of(row), ms, busy ? ", or others had its core" : "")});
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
      {"products of bfloat16 run as float32 on this CPU, which has no fast instructions for them: "
       "bfloat16 saves memory, and no time"}};
}

/// What checkpoints cost, which is in no step's time.
Finding saves_of(const RowRuns& row) {
  const Run& run = run_of(row);
  std::size_t saved = 0;
  std::string failure;
  double seconds = 0, stalls = 0;
  std::int64_t beside = 0;
  const SavedCheckpoint* last = nullptr;
  for (const SavedCheckpoint& each : run.ranks.front().checkpoints) {
    if (each.folder.empty()) {
      if (failure.empty()) failure = fmt::format("step {}: {}", each.step, each.failure);
      continue;
    }
    ++saved;
    seconds += each.seconds;
    stalls += each.stall_seconds;
    beside += each.steps_beside;
    last = &each;
  }
  if (run.ranks.front().checkpoints.empty()) return {};
  if (last == nullptr) {
    return {fmt::format("no checkpoint of {} was saved; {}", name_of(row), failure)};
  }
  const auto asked = std::ssize(run.ranks.front().checkpoints);
  const double each_s = seconds / static_cast<double>(saved);
  const double mb = static_cast<double>(last->bytes) * 1e-6;
  const std::string how =
      beside == 0 ? "between two steps"
                  : fmt::format("of which training stood {:.3g} s; {} ran beside them",
                                stalls / static_cast<double>(saved), counted(beside, "step"));
  return {
      fmt::format("{} of {} of {} {} of {:.1f} MB in {:.3g} s ({:.0f} "
                  "MB/s), {}; the last is {}{}",
                  saved, counted(asked, "checkpoint"), name_of(row),
                  asked == 1 ? "was saved," : "were saved, each", mb, each_s, mb / each_s, how,
                  last->folder, failure.empty() ? "" : "; one that was not: " + failure)};
}

std::vector<Finding> saved(const Rows& rows) { return mapped(rows, saves_of); }

/// Tensors that rounding kept as they were: they are not trained.
std::vector<Finding> stood_still(const Rows& rows) {
  std::vector<Finding> out;
  for (const RowRuns& row : rows) {
    std::vector<LostUpdates> still;
    std::ranges::copy_if(run_of(row).ranks.front().lost_updates, std::back_inserter(still),
                         &LostUpdates::stands_still);
    if (still.empty()) continue;
    const LostUpdates& first = still.front();
    const std::string others = still.size() == 1
                                   ? ""
                                   : fmt::format(", and those of {} more {},", still.size() - 1,
                                                 still.size() == 2 ? "tensor" : "tensors");
    const std::string text = fmt::format(
        "{}: all {}{} weights of {}{} were left unchanged by rounding in each of {} "
        "looked-at steps",
        name_of(row), with_thousands(first.looked_at),
        first.looked_at == first.weights ? "" : " looked-at", first.parameter, others, first.steps);
    const auto names = mapped(still, &LostUpdates::parameter);
    out.push_back(finding("stood_still", text, row, {{"tensors", names}, {"steps", first.steps}}));
  }
  return out;
}

/// What the row with the lowest loss wrote last.
std::vector<Finding> wrote(const Rows& rows) {
  const RowRuns* best = nullptr;
  // Where documents end, a rank's own loss is no mean of its targets.
  const auto loss = [](const RowRuns& row) { return (*row.front())[training().loss].last; };
  for (const RowRuns& row : rows) {
    if (run_of(row).ranks.front().texts.empty() || is_control(row)) continue;
    if (best == nullptr || loss(row) < loss(*best)) best = &row;
  }
  if (best == nullptr) return {};
  const WrittenText& last = run_of(*best).ranks.front().texts.back();
  // Of text a target is a byte; of tokens that a tokenizer made it is several.
  const nlohmann::json& config = run_of(*best).config;
  const auto source = nlohmann::json::json_pointer("/data/source");
  const bool of_bytes = !config.contains(source) || config[source] == "text";
  std::string text = last.text;
  std::ranges::replace(text, '\n', ' ');
  return {{fmt::format("{} wrote after {}, at {:.2f} bits per {} of the last batch: \"{}\"",
                       name_of(*best), counted(last.step, "step"), loss(*best) / std::numbers::ln2,
                       of_bytes ? "byte" : "token", text)}};
}

}  // namespace

Sorts of_conduct(const Rows& rows) {
  return {widened(rows), stood_still(rows), computed_outside(rows), slept(rows), checked(rows),
          saved(rows),   wrote(rows)};
}

}  // namespace ddprun::training_findings
