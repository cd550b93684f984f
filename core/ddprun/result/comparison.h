// What the runs of two rows say about their difference: a size, and whether chance explains it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// A figure of each run of a row, and of the row that it is compared with.
struct Comparison {
  std::vector<double> own, base;
  /// Mean of `own` / mean of `base`.
  double ratio = 1;
  /// Of Welch's t-test of the two, times the number of comparisons that this one was chosen from
  /// (Bonferroni), at most 1. Nothing if one of them has fewer than kLeastRuns.
  std::optional<double> p = {};
  /// How many this one was chosen from, for being the largest.
  int chosen_from = 1;
  /// Why a test would say nothing; empty: it would.
  std::string untested = {};

  static constexpr std::size_t kLeastRuns = 3;
  /// A difference with a larger p is within noise.
  static constexpr double kNoise = 0.05;

  bool within_noise() const { return p && *p >= kNoise; }
};

/// Both have a figure at least, and the mean of `base` is not 0.
Comparison compare(std::vector<double> own, std::vector<double> base, int chosen_from = 1,
                   std::string untested = {});

/// "is 1.9 % faster than", of times: the share of the base's time that is saved. From half as much
/// again on it is a factor: "is 2.10 times as fast as".
std::string words_of_times(const Comparison& comparison);

/// " (p = 0.012)", ", within noise (p = 0.31)", or why there is none:
/// " (one run, not tested)".
std::string verdict(const Comparison& comparison);

/// The numbers of the sentence.
nlohmann::json to_json(const Comparison& comparison);

}  // namespace ddprun
