// How many turns the rows of a file take, where the file leaves that to what they find.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runner/command/batch_file.h"
#include "runner/launch/execute.h"
#include "runner/report/table_lines.h"

namespace ddprun {

/// Half the width of the 95 % interval of a row's time beside that of its base, as a share of it;
/// the widest of the rows that have one. Nothing: no two rows are compared, or one of them has
/// fewer than three rounds.
std::optional<double> widest_interval(const TableLines& table);

/// `report.until` and `report.minutes`. The width of an interval decides, and not whether a
/// difference is significant: looking for significance again and again finds some by chance, while
/// an interval of a width fixed before stays what it says (Chow and Robbins 1965).
class OpenRounds {
 public:
  /// Both outlive it.
  OpenRounds(const PlannedFile& plan, const Executor& executor);

  /// Whether turn `round` (1 is the first) begins, when those before it are over. Called turn by
  /// turn, more than once of one turn. In a launch that was joined all ranks call it, and hear what
  /// rank 0 says.
  bool begins(std::int64_t round, std::span<const BatchRow> rows);
  /// The last turn that began.
  std::int64_t last() const { return last_; }
  /// Why no other did: "x: 5 runs of each row: the widest interval is 0.8 %". Empty: all did.
  std::string words() const;

 private:
  std::string find_reason(std::span<const BatchRow> rows) const;

  const PlannedFile& plan_;
  const Executor& executor_;
  std::int64_t begin_ns_;
  std::int64_t last_ = 0;
  std::string reason_ = {};
};

}  // namespace ddprun
