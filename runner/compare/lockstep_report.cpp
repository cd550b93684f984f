// Measures differences in ulp, and finds the first that is no rounding.
#include "runner/compare/lockstep_report.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr double kUpdateBound = 16;

/// What passes in forward and backward: float32 adds up many addends in another order, shorter
/// formats round a sum of float32 once.
double usual_bound(double spacing) {
  if (spacing <= 0x1p-23) return 128;
  return spacing <= 0x1p-7 ? 8 : 3;
}

double ulp_of(const json& difference, double spacing) {
  const double off = number_or_nan(difference.at("difference"));
  return off == 0 ? 0 : off / (spacing * number_or_nan(difference.at("size")));
}

bool beyond(const json& difference, double bound) {
  return !(number_or_nan(difference.at("ulp")) <= bound);  // a NaN is beyond
}

/// The format that is coarser, the bound, and what was largest so far.
json phase_of(const json& lead, const json& other, std::optional<double> bound, bool update) {
  const json& format =
      number_or_nan(lead.at("spacing")) >= number_or_nan(other.at("spacing")) ? lead : other;
  return {{"format", format},
          {"bound", update ? kUpdateBound
                           : bound.value_or(usual_bound(number_or_nan(format.at("spacing"))))},
          {"largest", nullptr}};
}

bool larger(const json& largest, const json& difference) {
  if (largest.is_null()) return true;
  const double now = number_or_nan(largest.at("ulp")), next = number_or_nan(difference.at("ulp"));
  return !std::isnan(now) && !(next <= now);
}

std::string value_text(const json& value) {
  return value.is_null() ? "no number" : fmt::format("{:.6g}", value.get<double>());
}

std::string ulp_text(const json& ulp) {
  const double value = number_or_nan(ulp);
  return std::isnan(value) ? "no number" : fmt::format("{:.3g} ulp", value);
}

/// "the output of unit layers.0", "the gradient of lm_head.weight", "lm_head.weight"
std::string tensor_words(const json& difference) {
  const std::string tensor = difference.at("tensor"), unit = difference.at("unit");
  if (difference.at("phase") == "backward") return "the gradient of " + tensor;
  if (difference.at("phase") == "update") return tensor;
  return tensor == "output" ? "the output of unit " + unit : "the " + tensor;
}

std::string largest_words(const json& phase, const std::string& name) {
  const json& largest = phase.at("largest");
  if (largest.is_null()) return {};
  const json& ulp = largest.at("ulp");
  if (!ulp.is_null() && ulp.get<double>() == 0) return name + " equal bit for bit";
  return fmt::format("{} {} of {} ({}, step {})", name, ulp_text(ulp),
                     phase.at("format").at("name").get<std::string>(), tensor_words(largest),
                     largest.at("step").get<std::int64_t>());
}

constexpr std::array kPhases = {"forward", "backward", "update"};

std::string words_of_phases(const json& judged) {
  std::vector<std::string> words;
  for (const char* name : kPhases) {
    const std::string of_phase = largest_words(judged.at("phases").at(name), name);
    if (!of_phase.empty()) words.push_back(of_phase);
  }
  return list_text(words, "; ");
}

std::string parted_words(const json& judged) {
  const json& parts = judged.at("parts");
  const std::string name = parts.at("phase");
  const json& phase = judged.at("phases").at(name);
  return fmt::format(
      "step {}, {}, unit {}: {} differs by {} of {} (bound {:g}): element {} is {}, and was {}",
      parts.at("step").get<std::int64_t>(), name, parts.at("unit").get<std::string>(),
      tensor_words(parts), ulp_text(parts.at("ulp")),
      phase.at("format").at("name").get<std::string>(), phase.at("bound").get<double>(),
      with_thousands(parts.at("element").get<std::int64_t>()), value_text(parts.at("other")),
      value_text(parts.at("lead")));
}

}  // namespace

json judge_lockstep(json found, const json& lead, std::optional<double> ulp) {
  json phases;
  for (const std::string name : kPhases) {
    phases[name] =
        phase_of(lead.at("formats").at(name), found.at("formats").at(name), ulp, name == "update");
  }
  json parts = nullptr;
  for (json& step : found.at("steps")) {
    for (json& difference : step.at("differences")) {
      json& phase = phases.at(difference.at("phase").get<std::string>());
      difference["ulp"] = ulp_of(difference, number_or_nan(phase.at("format").at("spacing")));
      json with_step = difference;
      with_step["step"] = step.at("step");
      if (larger(phase.at("largest"), difference)) phase["largest"] = with_step;
      if (parts.is_null() && beyond(difference, phase.at("bound"))) parts = with_step;
    }
  }
  found["phases"] = std::move(phases);
  found["passed"] = parts.is_null();
  found["parts"] = std::move(parts);
  return found;
}

std::string lockstep_text(const json& judged, const std::string& lead, const std::string& name,
                          const Terminal& terminal) {
  const bool passed = judged.at("passed");
  const auto steps = std::ssize(judged.at("steps"));
  const std::string verdict =
      passed ? fmt::format("{} equals {} up to rounding for {}", name, lead, counted(steps, "step"))
             : fmt::format("{} parts from {}: {}", name, lead, parted_words(judged));
  return coloured(verdict, passed ? Colour::green : Colour::red, terminal.colour) +
         "\n  largest: " + words_of_phases(judged) + "\n";
}

}  // namespace ddprun
