// A sample: what one rank measured in one step. It has a value for each measured quantity of the
// experiment's kind.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/result/experiment_kind.h"

namespace ddprun {

class Sample {
 public:
  /// Every value is 0; optional values are absent.
  explicit Sample(const ExperimentKind& kind);

  /// 0 is the first warm-up step.
  std::int64_t step = 0;
  bool warmup = false;

  /// An absent optional value becomes 0 first, as in a map.
  double& operator[](const Quantity& quantity);
  /// Throws std::bad_optional_access if the value is absent.
  double operator[](const Quantity& quantity) const { return find(quantity).value(); }
  std::optional<double> find(const Quantity& quantity) const { return values_[quantity.index]; }

  const ExperimentKind& kind() const { return *kind_; }
  /// The value as steps.csv has it; empty if it is absent.
  std::string text(const Quantity& quantity) const;

 private:
  const ExperimentKind* kind_;
  std::vector<std::optional<double>> values_;  // one a quantity; of those not measured: none
};

/// Writing and reading loses nothing: numbers that JSON lacks are the texts "nan", "inf" and
/// "-inf".
nlohmann::json to_json(const Sample& sample);
/// Throws Error or nlohmann::json::exception if a field is missing or of another type.
Sample sample_from_json(const nlohmann::json& json, const ExperimentKind& kind);

}  // namespace ddprun
