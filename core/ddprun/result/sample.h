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
  std::optional<double> find(const Quantity& quantity) const;

  const ExperimentKind& kind() const { return *kind_; }
  /// The value as steps.csv has it; empty if it is absent.
  std::string text(const Quantity& quantity) const;

 private:
  const ExperimentKind* kind_;
  std::vector<double> values_;  ///< one a quantity; kAbsent: none
};

/// Samples of one kind, as a list for each quantity: {"step": [0, 1], "loss": [9.2, 9.1], ...}.
/// Writing and reading loses nothing: numbers that JSON lacks are the texts "nan", "inf" and
/// "-inf", and an absent value is null.
nlohmann::json samples_to_json(const std::vector<Sample>& samples);
/// Throws Error or nlohmann::json::exception if a list is missing, of another type or length.
std::vector<Sample> samples_from_json(const nlohmann::json& json, const ExperimentKind& kind);

}  // namespace ddprun
