// --resume: which rows of a batch are taken over from earlier results, and which of these run
// again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/launch/execute.h"
#include "runner/launch/plan.h"
#include "runner/report/earlier_rows.h"

namespace ddprun {

/// Rank 0 of a launch that was joined decides for all ranks, as others may see another folder.
class BatchResumption {
 public:
  /// A row of the batch.
  struct Planned {
    const Row* row;
    const PlannedFile* file;
    std::string place;    ///< what a message calls it
    bool can_run = true;  ///< on this machine, and is not done with all of its steps
  };

  /// `say` shows a message. `executor` outlives this object.
  BatchResumption(const Executor& executor, std::function<void(const std::string&)> say)
      : executor_(executor), say_(std::move(say)) {}

  /// For each row, the newest earlier one of the same experiment and conditions. Where there are
  /// others alone, it says which conditions differ: the row runs again or, if it cannot run, the
  /// newest of these stands. On ranks other than 0 the rows are empty.
  std::vector<std::optional<EarlierRow>> read(const std::vector<Planned>& rows);

  /// For each row, whether it was taken over, and measured under conditions that rows found to be
  /// others that ran now (taken_from is empty) and asked for the same; if none ran, the newest
  /// ones.
  std::vector<bool> outdated(const std::vector<Planned>& rows);

 private:
  /// Of rank 0, on every rank.
  std::vector<bool> of_rank_0(const std::vector<bool>& own);

  const Executor& executor_;
  std::function<void(const std::string&)> say_;
  int decisions_ = 0;
};

}  // namespace ddprun
