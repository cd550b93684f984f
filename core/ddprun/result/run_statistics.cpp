// Statistics over ranks and steps, and their JSON.
#include "ddprun/result/run_statistics.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "ddprun/result/plain_json.h"

namespace ddprun {

namespace {

using nlohmann::json;

void require_same_steps(const std::vector<RankResult>& ranks) {
  if (ranks.empty()) throw std::invalid_argument("no rank has a result");
  const auto& first = ranks[0].samples;
  for (const RankResult& rank : ranks) {
    const bool same = std::equal(
        first.begin(), first.end(), rank.samples.begin(), rank.samples.end(),
        [](const Sample& a, const Sample& b) { return a.step == b.step && a.warmup == b.warmup; });
    if (!same) {
      throw std::invalid_argument("rank " + std::to_string(rank.rank) +
                                  " has other steps than rank " + std::to_string(ranks[0].rank));
    }
  }
  if (first.empty() || first.back().warmup) throw std::invalid_argument("no step was measured");
}

double combine(const std::vector<double>& values, OverRanks how) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  switch (how) {
    case OverRanks::mean:
      break;
    case OverRanks::max:
      return *std::ranges::max_element(values);
    case OverRanks::sum:
      return sum;
  }
  return sum / static_cast<double>(values.size());
}

/// The value of step `i` of those ranks that have one.
std::optional<double> of_step(const std::vector<RankResult>& ranks, std::size_t i,
                              const Quantity& quantity) {
  const Quantity& measured = quantity.of == nullptr ? quantity : *quantity.of;
  std::vector<double> values;
  for (const RankResult& rank : ranks) {
    if (const auto value = rank.samples[i].find(measured)) values.push_back(*value);
  }
  if (values.empty()) return {};
  return combine(values, quantity.over_ranks);
}

json over_run_json(const Quantity& quantity, const OverRun& over_run) {
  switch (quantity.over_steps) {
    case OverSteps::median:
    case OverSteps::mean:
    case OverSteps::std:
    case OverSteps::p99:
    case OverSteps::number:
      return over_run.steps;
    case OverSteps::ends:
      if (over_run.values == 0) return {{"first", nullptr}, {"last", nullptr}};
      return {{"first", over_run.first}, {"last", over_run.last}};
    case OverSteps::count:
      return over_run.count;
    case OverSteps::sum:
      return over_run.sum;
  }
  return nullptr;
}

}  // namespace

Figure figure_of_work(const Run& run, const Quantity& quantity) {
  const auto found = run.work.find(quantity.of_work);
  return found == run.work.end() ? Figure{} : Figure{found->get<double>()};
}

RunStatistics::RunStatistics(const Run& run, std::string name)
    : run_(&run), name_(std::move(name)) {
  require_same_steps(run.ranks);
  for (const Quantity& quantity : run.kind->quantities()) {
    over_run_.push_back(quantity.of_steps() ? over_run(quantity) : OverRun{});
  }
}

OverRun RunStatistics::over_run(const Quantity& quantity) const {
  const std::vector<Sample>& steps = run_->ranks[0].samples;
  OverRun out;
  std::vector<double> measured;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::optional<double> value = of_step(run_->ranks, i, quantity);
    if (!value) continue;
    if (out.values++ == 0) out.first = *value;
    out.last = *value;
    if (*value != 0) ++out.count;
    out.sum += *value;
    if (!steps[i].warmup) measured.push_back(*value);
  }
  out.steps = summarize(std::move(measured));
  return out;
}

std::vector<Summary> RunStatistics::rank_steps() const {
  const Quantity& time = run_->kind->quantities().front();
  std::vector<Summary> out;
  for (const RankResult& rank : run_->ranks) {
    std::vector<double> own;
    for (const Sample& sample : rank.samples) {
      if (!sample.warmup) own.push_back(sample[time]);
    }
    out.push_back(summarize(std::move(own)));
  }
  return out;
}

Figure RunStatistics::figure(const Quantity& quantity) const {
  if (!quantity.of_work.empty()) return figure_of_work(*run_, quantity);
  if (quantity.follows) return quantity.follows(*this);
  const OverRun& over_run = (*this)[quantity];
  const Summary& steps = over_run.steps;
  const auto of_steps = [&steps](double value) {
    return steps.count == 0 ? Figure{} : Figure{value};
  };
  switch (quantity.over_steps) {
    case OverSteps::median:
      return of_steps(steps.median);
    case OverSteps::mean:
      return of_steps(steps.mean);
    case OverSteps::std:
      return of_steps(steps.std);
    case OverSteps::p99:
      return of_steps(steps.p99);
    case OverSteps::number:
      return {static_cast<double>(steps.count)};
    case OverSteps::ends:
      return over_run.values == 0 ? Figure{} : Figure{over_run.last};
    case OverSteps::count:
      return {static_cast<double>(over_run.count)};
    case OverSteps::sum:
      return {over_run.sum};
  }
  return {};
}

json to_json(const RunStatistics& statistics) {
  json out;
  for (const Quantity& quantity : statistics.run().kind->quantities()) {
    if (quantity.of_steps()) {
      out[quantity.key] = over_run_json(quantity, statistics[quantity]);
    } else if (!quantity.compares) {
      const Figure figure = statistics.figure(quantity);
      out[quantity.key] = figure.value ? json(*figure.value) : json(nullptr);
      if (!figure.value && !figure.words.empty()) out["no_" + quantity.key] = figure.words;
    }
  }
  out["rank_" + statistics.run().kind->quantities().front().key] = statistics.rank_steps();
  return out;
}

}  // namespace ddprun
