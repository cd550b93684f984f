// Samples as JSON and as text.
#include "ddprun/result/sample.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "ddprun/base/error.h"
#include "ddprun/base/json.h"

namespace ddprun {

namespace {

using nlohmann::json;

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
      return json_number(value);
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

/// Of all NaNs the one that no arithmetic gives: a sample may well hold another.
constexpr std::uint64_t kAbsent = 0x7ff8'0000'dd9a'0b5e;

bool is_absent(double value) { return std::bit_cast<std::uint64_t>(value) == kAbsent; }

}  // namespace

Sample::Sample(const ExperimentKind& kind)
    : kind_(&kind), values_(kind.quantities().size(), std::bit_cast<double>(kAbsent)) {
  for (const Quantity& quantity : kind.quantities()) {
    if (quantity.measured() && !quantity.optional) values_[quantity.index] = 0;
  }
}

double& Sample::operator[](const Quantity& quantity) {
  double& value = values_[quantity.index];
  if (is_absent(value)) value = 0;
  return value;
}

std::optional<double> Sample::find(const Quantity& quantity) const {
  const double value = values_[quantity.index];
  return is_absent(value) ? std::nullopt : std::optional(value);
}

std::string Sample::text(const Quantity& quantity) const {
  const std::optional<double> value = find(quantity);
  if (!value) return {};
  if (quantity.written != Written::number) {
    return fmt::format("{}", static_cast<std::int64_t>(*value));
  }
  return quantity.unit == "ms" ? fmt::format("{:.6f}", *value) : fmt::format("{}", *value);
}

json samples_to_json(const std::vector<Sample>& samples) {
  json out = {{"step", json::array()}, {"warmup", json::array()}};
  for (const Sample& sample : samples) {
    out["step"].push_back(sample.step);
    out["warmup"].push_back(sample.warmup);
  }
  if (samples.empty()) return out;
  for (const Quantity& quantity : samples.front().kind().quantities()) {
    if (!quantity.measured()) continue;
    json& values = out[quantity.key] = json::array();
    for (const Sample& sample : samples) {
      const std::optional<double> value = sample.find(quantity);
      values.push_back(value ? value_json(quantity, *value) : json(nullptr));
    }
  }
  return out;
}

std::vector<Sample> samples_from_json(const json& in, const ExperimentKind& kind) {
  std::vector<Sample> samples(in.at("step").size(), Sample(kind));
  const auto for_each_value = [&](const std::string& key, const auto& set) {
    const json& values = in.at(key);
    if (!values.is_array() || values.size() != samples.size()) {
      throw Error({.what = "samples of a rank's result are incomplete",
                   .where = key,
                   .got = fmt::format("{} values of {} samples", values.size(), samples.size()),
                   .expected = "a list with one value a sample",
                   .hint = "the result was written by another version of ddprun"});
    }
    for (std::size_t i = 0; i < samples.size(); ++i) set(samples[i], values[i]);
  };
  for_each_value("step", [](Sample& sample, const json& value) { value.get_to(sample.step); });
  for_each_value("warmup", [](Sample& sample, const json& value) { value.get_to(sample.warmup); });
  for (const Quantity& quantity : kind.quantities()) {
    if (!quantity.measured() || samples.empty()) continue;
    for_each_value(quantity.key, [&](Sample& sample, const json& value) {
      if (quantity.optional && value.is_null()) return;
      sample[quantity] = value_from_json(quantity, value);
    });
  }
  return samples;
}

}  // namespace ddprun
