// Holds differences against bounds.
#include "runner/report/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ddprun/base/json.h"
#include "ddprun/base/text.h"
#include "runner/report/text_table.h"

namespace ddprun {

namespace {

using nlohmann::json;

double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
}

struct ComparedQuantity {
  std::string key;
  std::string words;
  double bound;
};

std::vector<ComparedQuantity> quantities(double gradient, const VerifyBounds& bounds) {
  const double unbounded = std::numeric_limits<double>::max();  // a NaN exceeds even this
  return {{"gradient", "the gradient of", gradient},
          {"update", "from equal gradients, the relative update of", VerifyBounds::kUpdate},
          {"parameter", "after the update,", bounds.parameter.value_or(unbounded)}};
}

/// Whether this quantity of a step or a parameter passes; what was not compared does.
bool passes(const json& differences, const ComparedQuantity& quantity) {
  if (differences.is_null() || !differences.contains(quantity.key)) return true;
  return number_or_nan(differences.at(quantity.key).at("value")) <=
         quantity.bound;  // false for a NaN
}

bool pass(const json& differences, const std::vector<ComparedQuantity>& all) {
  return std::ranges::all_of(
      all, [&](const ComparedQuantity& each) { return passes(differences, each); });
}

double loss_difference(const json& step) {
  const double one = number_or_nan(step.at("loss_one_process"));
  return std::abs(number_or_nan(step.at("loss")) - one) / std::max(1.0, std::abs(one));
}

/// The first step that fails by this quantity, in words.
void add_reason(const json& steps, const ComparedQuantity& quantity, json& reasons) {
  for (const json& step : steps) {
    const json& differences = step.at("differences");
    if (passes(differences, quantity)) continue;
    const json& largest = differences.at(quantity.key);
    reasons.push_back(fmt::format("step {}: {} {} differs by {:.3g} (bound {:.3g})",
                                  step.at("step").get<std::int64_t>(), quantity.words,
                                  largest.at("parameter").get<std::string>(),
                                  number_or_nan(largest.at("value")), quantity.bound));
    return;
  }
}

void add_loss_reason(const json& steps, double bound, json& reasons) {
  for (const json& step : steps) {
    if (loss_difference(step) <= bound) continue;
    reasons.push_back(fmt::format("step {}: the loss is {:.6g} on {} and {:.6g} in one process",
                                  step.at("step").get<std::int64_t>(),
                                  number_or_nan(step.at("loss")),
                                  counted(std::ssize(step.at("losses")), "rank"),
                                  number_or_nan(step.at("loss_one_process"))));
    return;
  }
}

double largest(const json& parameters, const char* key) {
  double worst = 0;
  for (const json& each : parameters) worst = worse(worst, number_or_nan(each.at(key).at("value")));
  return worst;
}

}  // namespace

json judge(json found, const VerifyBounds& bounds) {
  json reasons = found.at("faults");
  const double bound = bounds.gradient ? *bounds.gradient : found.at("bound").get<double>();
  const double loss_bound = bounds.gradient ? bound : std::min(bound, VerifyBounds::kLoss);
  found.erase("bound");  // one of `bounds` now
  const auto all = quantities(bound, bounds);
  json& steps = found.at("steps");
  double loss = 0;
  for (json& step : steps) {
    loss = worse(loss, loss_difference(step));
    step["passed"] = loss_difference(step) <= loss_bound && pass(step.at("differences"), all);
  }
  add_loss_reason(steps, loss_bound, reasons);
  for (const ComparedQuantity& quantity : all) add_reason(steps, quantity, reasons);
  json& parameters = found.at("parameters");
  for (json& parameter : parameters) parameter["passed"] = pass(parameter, all);
  if (parameters.empty()) reasons.push_back("nothing was compared");
  found["bounds"] = {{"gradient", bound},
                     {"loss", loss_bound},
                     {"update", VerifyBounds::kUpdate},
                     {"parameter", nullptr}};
  if (bounds.parameter) found["bounds"]["parameter"] = *bounds.parameter;
  found["largest"] = {{"loss", loss},
                      {"gradient", largest(parameters, "gradient")},
                      {"update", largest(parameters, "update")}};
  found["passed"] = reasons.empty();
  found["reasons"] = std::move(reasons);
  return found;
}

std::string verify_text(const json& judged, const Terminal& terminal) {
  const json& parameters = judged.at("parameters");
  const bool sgd = !parameters.empty() && parameters[0].contains("parameter");
  TextTable table;
  table.columns = {{"parameter", false}};
  std::vector<const char*> keys = {"gradient", "update"};
  if (sgd) keys.push_back("parameter");
  for (const char* key : keys) {
    table.columns.push_back({std::string(key) + " max"});
    table.columns.push_back({"mean", true, 1});
  }
  table.columns.push_back({"", false});
  for (const json& each : parameters) {
    const bool passed = each.at("passed");
    TextTable::Line line{{{each.at("gradient").at("parameter")}}};
    for (const char* key : keys) {
      for (const char* of : {"value", "mean"}) {
        line.cells.push_back({fmt::format("{:.3g}", number_or_nan(each.at(key).at(of)))});
      }
    }
    line.cells.push_back({passed ? "✓" : "✗", passed ? Colour::green : Colour::red});
    table.lines.push_back(std::move(line));
  }
  std::string out = table.render(terminal.width, terminal.colour);
  for (const json& reason : judged.at("reasons")) {
    out += coloured(reason.get<std::string>(), Colour::red, terminal.colour) + "\n";
  }
  const bool passed = judged.at("passed");
  const json& largest = judged.at("largest");
  const std::string verdict = fmt::format(
      "{}: largest difference in {} of a gradient {:.3g} (bound {:.3g}), of a loss {:.3g} "
      "(bound {:.3g}), of an update from equal gradients {:.3g} (bound {:.3g})",
      passed ? "passed" : "FAILED", counted(std::ssize(judged.at("steps")), "step"),
      number_or_nan(largest.at("gradient")), number_or_nan(judged.at("bounds").at("gradient")),
      number_or_nan(largest.at("loss")), number_or_nan(judged.at("bounds").at("loss")),
      number_or_nan(largest.at("update")), VerifyBounds::kUpdate);
  return out + coloured(verdict, passed ? Colour::green : Colour::red, terminal.colour) + "\n";
}

}  // namespace ddprun
