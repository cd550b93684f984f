// Checks of all ranks as one proof.
#include "ddprun/result/check.h"

#include <algorithm>
#include <utility>

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

/// The check with its rank in front, unless all ranks say the same.
Check said_by(std::size_t rank, Check check, const std::vector<std::vector<Check>>& ranks) {
  const bool by_all =
      std::ranges::all_of(ranks, [&](const auto& checks) { return contains(checks, check); });
  if (!by_all && check.status != CheckStatus::passed) {
    check.detail = "rank " + std::to_string(rank) + ": " + check.detail;
  }
  return check;
}

}  // namespace

Check make_check(std::string name, bool passed, std::string detail) {
  return {std::move(name), passed ? CheckStatus::passed : CheckStatus::failed, std::move(detail)};
}

Proof summarize_checks(const std::vector<std::vector<Check>>& ranks) {
  Proof proof;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Check& check : ranks[rank]) {
      const auto known = std::ranges::find(proof.checks, check.name, &Check::name);
      if (known == proof.checks.end()) {
        proof.checks.push_back(said_by(rank, check, ranks));
      } else if (check.status > known->status) {
        *known = said_by(rank, check, ranks);
      }
    }
  }
  for (const Check& check : proof.checks) proof.status = std::max(proof.status, check.status);
  return proof;
}

}  // namespace ddprun
