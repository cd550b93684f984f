// The check of a step's update: what the optimizer makes of the mean gradients, on drawn elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// Watches one step of training: keeps what the update reads, repeats the update by the core's own
/// optimizer once the step is over, and compares parameters and moments bit by bit. It looks at a
/// drawn run of elements (drawn_run) in each parameter of which this rank owns some; other draws
/// look at others. Where the ranks have just averaged their parameters, as a periodic strategy
/// declares, it compares with the mean over the ranks of what their optimizers made, each by its
/// weight, to 4 roundings; and the weights keep the mean over all ranks. Training thread.
class UpdateProof {
 public:
  /// Between steps. `data_parallel` outlives this object. Equal draws on all ranks.
  UpdateProof(DataParallel& data_parallel, std::uint64_t draw);
  /// When backward has synchronized, before Strategy::update().
  void keep_gradients();
  /// After the step ("parameters_updated"). Leaves parameters, moments and gradients as they are.
  /// All ranks call it.
  Check finish(ProcessGroup& group);

 private:
  /// A run of elements of one parameter.
  struct Drawn {
    int index;
    Range range;
    std::vector<at::Tensor> before;  // Optimizer::written_by_update(); without moments: zeros
    at::Tensor gradients = {};
  };

  /// What an update makes of what was kept.
  std::vector<at::Tensor> repeat(const Drawn& drawn);
  /// What is wrong with it, in words; empty: nothing. `weights` (ranks,): this rank's of what each
  /// made; undefined: the ranks did not average.
  std::string compare(const Drawn& drawn, const at::Tensor& weights, ProcessGroup& group);

  DataParallel& data_parallel_;
  std::vector<Drawn> drawn_;
};

}  // namespace ddprun
