// The checks by which a run proves itself, and how those of all ranks make one proof.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

/// In the order of strictness: over ranks and checks a later value overrules an earlier one.
enum class CheckStatus : std::uint8_t {
  unchecked,  // no check was made
  passed,
  declared,  // what the strategy declares holds, which is less than `passed`
  control,   // not synchronized by design
  failed,
};
constexpr auto choice_names(CheckStatus) {
  return std::array{"unchecked", "passed", "declared", "control", "failed"};
}

/// One check of one rank. docs/measurement.md says what each check proves.
struct Check {
  /// As docs/measurement.md has it: "integer_gradients".
  std::string name;
  CheckStatus status = CheckStatus::unchecked;
  /// What was compared: "all 2,112,512 gradients equal the exact mean on 2 ranks".
  std::string detail;

  bool operator==(const Check&) const = default;
};

Check make_check(std::string name, bool passed, std::string detail);

/// The strictest outcome of each check over the ranks, in rank 0's order, and of all.
struct Proof {
  CheckStatus status = CheckStatus::unchecked;
  std::vector<Check> checks = {};
};
/// `ranks`: the checks of each rank, in rank order.
Proof summarize_checks(const std::vector<std::vector<Check>>& ranks);

}  // namespace ddprun
