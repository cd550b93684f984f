// Comparisons of rows in words.
#include "ddprun/result/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddprun/measure/statistics.h"

namespace ddprun {

namespace {

/// A smaller difference is no difference in tenths of a percent.
constexpr double kEqual = 0.0005;

std::string p_text(double p) {
  return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.{}f}", p, p < 0.1 ? 3 : 2);
}

}  // namespace

Comparison compare(std::vector<double> own, std::vector<double> base, int chosen_from,
                   std::string untested) {
  Comparison out{std::move(own), std::move(base)};
  out.chosen_from = std::max(chosen_from, 1);
  out.ratio = summarize(out.own).mean / summarize(out.base).mean;
  out.untested = std::move(untested);
  if (!out.untested.empty()) return out;
  if (std::min(out.own.size(), out.base.size()) < Comparison::kLeastRuns) return out;
  if (const auto p = welch_p(out.own, out.base)) out.p = std::min(1.0, *p * out.chosen_from);
  return out;
}

std::string words_of_times(const Comparison& comparison) {
  const double ratio = comparison.ratio;
  if (std::abs(ratio - 1) < kEqual) return "is as fast as";
  if (ratio <= 2.0 / 3) return fmt::format("is {:.2f} times as fast as", 1 / ratio);
  if (ratio < 1) return fmt::format("is {:.1f} % faster than", (1 - ratio) * 100);
  if (ratio < 1.5) return fmt::format("takes {:.1f} % longer than", (ratio - 1) * 100);
  return fmt::format("takes {:.2f} times as long as", ratio);
}

std::string verdict(const Comparison& comparison) {
  if (comparison.p) {
    return fmt::format("{} ({})", comparison.within_noise() ? ", within noise" : "",
                       p_text(*comparison.p));
  }
  if (!comparison.untested.empty()) return fmt::format(" ({}, not tested)", comparison.untested);
  const std::size_t runs = std::min(comparison.own.size(), comparison.base.size());
  if (runs == 1) return " (one run, not tested)";
  return fmt::format(" ({} runs, not tested)", runs);
}

nlohmann::json to_json(const Comparison& comparison) {
  return {{"runs", comparison.own},
          {"base_runs", comparison.base},
          {"ratio", comparison.ratio},
          {"p", comparison.p ? nlohmann::json(*comparison.p) : nlohmann::json(nullptr)},
          {"test", comparison.p ? "Welch's t" : "none"},
          {"untested", comparison.untested},
          {"chosen_from", comparison.chosen_from}};
}

}  // namespace ddprun
