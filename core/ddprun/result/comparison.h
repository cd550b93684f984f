// What the runs of two rows say about their difference: a size, and whether chance explains it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/paired_test.h"

namespace ddprun {

enum class Told {
  times,  ///< of times, as words_of_times()
  less,   ///< "34 % of ..." that is gone: 1 - ratio
  share   ///< "87 % of ...": the ratio
};

/// A figure of each run of a row, and of the row that it is compared with.
struct Comparison {
  std::vector<double> own, base;
  /// In turns: the geometric mean of the rounds' ratios; else mean of `own` / mean of `base`.
  double ratio = 1;
  std::optional<Bounds> interval = {};  ///< of the ratio, 95 %
  /// Two-sided, times the number of comparisons that this one was chosen from (Bonferroni), and,
  /// once settle() was called, corrected with all tests of a report (Holm). Nothing if one of them
  /// has fewer than kLeastRuns.
  std::optional<double> p = {};
  std::string test = "none";
  /// How many this one was chosen from, for being the largest.
  int chosen_from = 1;
  /// How many tests it was corrected with, itself included.
  int family = 1;
  /// Why a test would say nothing; empty: it would.
  std::string untested = {};
  Told told = Told::times;

  static constexpr std::size_t kLeastRuns = 3;
  /// A difference with a larger p is within noise.
  static constexpr double kNoise = 0.05;

  bool within_noise() const { return p && *p >= kNoise; }
};

/// Of independent runs, by Welch's t-test. Both have a figure; the mean of `base` is not 0.
Comparison compare(std::vector<double> own, std::vector<double> base, int chosen_from = 1,
                   std::string untested = {});

/// Of runs that took turns, a figure a round each: test_of_rounds() of the log of their ratios.
Comparison compare_in_turns(std::vector<double> own, std::vector<double> base, int chosen_from = 1);

/// The ratio's interval by another confidence than 95 %, if independent runs were tested.
std::optional<Bounds> interval_of(const Comparison& comparison, double confidence);

/// ln(own / base) of each round, where all figures are above 0; else empty.
std::vector<double> log_ratios(const Comparison& comparison);

/// "is 1.9 % faster than", of times: the share of the base's time that is saved. From half as much
/// again on it is a factor: "is 2.10 times as fast as".
std::string words_of_times(const Comparison& comparison);

/// " (p = 0.012; 95 %: 1.2 to 2.6 %)", ", within noise (p = 0.31; ...)", or why there is none:
/// " (one run, not tested)". The interval is of what the sentence says.
std::string verdict(const Comparison& comparison);

/// The numbers of the sentence.
nlohmann::json to_json(const Comparison& comparison);

}  // namespace ddprun
