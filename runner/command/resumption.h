// --resume: which rows of a batch are taken over from earlier results, and which of these run
// again.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runner/command/batch_file.h"
#include "runner/launch/execute.h"

namespace ddprun {

/// Rank 0 of a launch that was joined decides for all ranks, as others may see another folder.
class BatchResumption {
 public:
  using Say = std::function<void(const BatchRow& row, const std::string& text)>;

  /// `executor` outlives this object.
  BatchResumption(const Executor& executor, Say say) : executor_(executor), say_(std::move(say)) {}

  /// Sets `earlier` of each row to the newest one of the same experiment and conditions. Where
  /// there are others alone, it says which conditions differ: the row runs again or, if it cannot
  /// run, the newest of these stands. On ranks other than 0 the earlier rows are empty.
  void read(std::span<BatchRow> rows);

  /// For each row, whether it was taken over, and measured under conditions that rows found to be
  /// others that ran now (taken_from is empty) and asked for the same; if none ran, the newest
  /// ones.
  std::vector<bool> outdated(std::span<const BatchRow> rows);

 private:
  /// Of rank 0, on every rank.
  std::vector<bool> of_rank_0(const std::vector<bool>& own);

  const Executor& executor_;
  Say say_;
  int decisions_ = 0;
};

}  // namespace ddprun
