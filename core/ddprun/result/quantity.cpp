// The formula of a quantity's figure in words.
#include "ddprun/result/quantity.h"

#include <fmt/format.h>

namespace ddprun {

namespace {

const char* rank_words(OverRanks how) {
  switch (how) {
    case OverRanks::mean:
      return "mean over r of";
    case OverRanks::max:
      return "max over r of";
    case OverRanks::min:
      return "min over r of";
    case OverRanks::mean_minus_min:
      return "(mean over r - min over r) of";
    case OverRanks::sum:
      return "sum over r of";
  }
  return "";
}

std::string step_words(const Quantity& quantity, const std::string& of_step) {
  switch (quantity.over_steps) {
    case OverSteps::median:
      return (quantity.spread ? "median and standard deviation (n - 1) over i of "
                              : "median over i of ") +
             of_step;
    case OverSteps::mean:
      return "mean over i of " + of_step;
    case OverSteps::std:
      return "standard deviation (n - 1) over i of " + of_step;
    case OverSteps::p99:
      return "99th percentile over i of " + of_step;
    case OverSteps::number:
      return "N, the measured steps that have a sample";
    case OverSteps::sum:
      return "sum over all steps, warm-up included, of " + of_step;
    case OverSteps::ends:
      return of_step + (quantity.optional ? " of the first step that has it, warm-up included → of "
                                            "the last that has it"
                                          : " of the very first step, warm-up included → of the "
                                            "last step");
    case OverSteps::count:
      return "steps, warm-up included, in which it is not 0 on some rank";
  }
  return "";
}

}  // namespace

std::string Quantity::formula() const {
  std::string text = meaning;
  if (of_steps()) {
    const std::string& sample = of == nullptr ? key : of->key;
    text = step_words(*this, fmt::format("{} `{}`(r, i)", rank_words(over_ranks), sample));
  }
  return remark.empty() ? text : text + ": " + remark;
}

std::function<std::string(double value)> text_as(std::string format, double factor) {
  return [format = std::move(format), factor](double value) {
    return fmt::format(fmt::runtime(format), value * factor);
  };
}

}  // namespace ddprun
