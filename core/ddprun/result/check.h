// A check that a run makes of itself, and how those of all ranks make one proof.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The later ones overrule the earlier ones.
enum class CheckStatus : std::uint8_t {
  unchecked,  // no check was made
  passed,
  control,  // not synchronized by design
  failed,
};
const char* to_string(CheckStatus status);
/// Throws Error if no status has that name.
CheckStatus check_status(std::string_view name);

/// docs/measurement.md says what each check proves.
struct Check {
  /// "integer_gradients", "parameters_equal", "collectives_as_planned", "initial_parameters_equal"
  std::string name;
  CheckStatus status = CheckStatus::unchecked;
  /// What was compared: "all 2,112,512 gradients equal the exact mean on 2 ranks".
  std::string detail;

  bool operator==(const Check&) const = default;
};

/// The strictest outcome of each check over the ranks, in the order in which rank 0 made them, and
/// the strictest of all.
struct Proof {
  CheckStatus status = CheckStatus::unchecked;
  std::vector<Check> checks = {};
};
/// `ranks`: the checks of each rank, in rank order.
Proof summarize_checks(const std::vector<std::vector<Check>>& ranks);

}  // namespace ddprun
