// Samples as JSON and as text.
#include "ddprun/result/sample.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

using nlohmann::json;

/// JSON has no infinities and no NaN, but a diverging loss has.
json from_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double to_number(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw Error({.what = "not a number in a rank's result",
               .where = "a rank's result",
               .got = text,
               .expected = "a number, \"nan\", \"inf\", \"-inf\"",
               .hint = "the result was written by another version of ddprun"});
}

json value_json(const Quantity& quantity, double value) {
  switch (quantity.written) {
    case Written::number:
      return from_number(value);
    case Written::integer:
      return static_cast<std::int64_t>(value);
    case Written::boolean:
      return value != 0;
  }
  return nullptr;
}

double value_from_json(const Quantity& quantity, const json& in) {
  switch (quantity.written) {
    case Written::number:
      return to_number(in);
    case Written::integer:
      return static_cast<double>(in.get<std::int64_t>());
    case Written::boolean:
      return in.get<bool>() ? 1 : 0;
  }
  return 0;
}

}  // namespace

Sample::Sample(const ExperimentKind& kind) : kind_(&kind), values_(kind.quantities().size()) {
  for (const Quantity& quantity : kind.quantities()) {
    if (quantity.measured() && !quantity.optional) values_[quantity.index] = 0;
  }
}

double& Sample::operator[](const Quantity& quantity) {
  std::optional<double>& value = values_[quantity.index];
  return value ? *value : value.emplace(0);
}

std::string Sample::text(const Quantity& quantity) const {
  const std::optional<double> value = find(quantity);
  if (!value) return {};
  if (quantity.written != Written::number) {
    return fmt::format("{}", static_cast<std::int64_t>(*value));
  }
  return quantity.unit == "ms" ? fmt::format("{:.6f}", *value) : fmt::format("{}", *value);
}

json to_json(const Sample& sample) {
  json out = {{"step", sample.step}, {"warmup", sample.warmup}};
  for (const Quantity& quantity : sample.kind().quantities()) {
    if (!quantity.measured()) continue;
    const std::optional<double> value = sample.find(quantity);
    out[quantity.key] = value ? value_json(quantity, *value) : json(nullptr);
  }
  return out;
}

Sample sample_from_json(const json& in, const ExperimentKind& kind) {
  Sample sample(kind);
  in.at("step").get_to(sample.step);
  in.at("warmup").get_to(sample.warmup);
  for (const Quantity& quantity : kind.quantities()) {
    if (!quantity.measured()) continue;
    const json& value = in.at(quantity.key);
    if (quantity.optional && value.is_null()) continue;
    sample[quantity] = value_from_json(quantity, value);
  }
  return sample;
}

}  // namespace ddprun
