// The check of a step's update: what the optimizer makes of the mean gradients, on drawn elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/optim/parameter_groups.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// Watches one step of training: keeps what the update reads, repeats the update by the core's own
/// optimizer once the step is over, and compares parameters and moments bit by bit; and it compares
/// what that optimizer makes with its formula in float64 (exact_update.h). It looks at a
/// drawn run of elements (drawn_run) in each parameter of which this rank owns some; other draws
/// look at others. Where the ranks have just averaged their parameters, as a periodic strategy
/// declares, it compares with the mean over the ranks of what their optimizers made, each by its
/// weight, to 4 roundings; and the weights keep the mean over all ranks. Training thread.
class UpdateProof {
 public:
  /// Between steps. Both outlive this object, and `optimizer` is what the run was told. Equal draws
  /// on all ranks.
  UpdateProof(DataParallel& data_parallel, const OptimizerConfig& optimizer, std::uint64_t draw);
  /// When backward has synchronized, before Strategy::update().
  void keep_gradients();
  /// After the step ("parameters_updated"). Leaves parameters, moments and gradients as they are.
  /// All ranks call it.
  Check finish(ProcessGroup& group);
  /// After finish(): whether the optimizer computes what it was told ("optimizer_computed").
  /// `norm`: of the gradients, by which the step clipped. `scaled_back`: what undid the scale of
  /// the loss. All ranks call it.
  Check finish_formula(ProcessGroup& group, double norm, double scaled_back = 1) const;

 private:
  /// A run of elements of one parameter.
  struct Drawn {
    int index;
    Range range;
    std::vector<at::Tensor> before;  // Optimizer::written_by_update(); without moments: zeros
    at::Tensor gradients = {};
  };

  /// What an update makes of what was kept. Adds what was zero to drawn.before.
  std::vector<at::Tensor> repeat(Drawn& drawn);
  /// How many elements of it, `made`, are not what the optimizer's formula gives.
  std::int64_t count_off_formula(const Drawn& drawn, const std::vector<at::Tensor>& made) const;
  /// The norm of the gradients of all ranks.
  double gradient_norm(ProcessGroup& group) const;
  /// What is wrong with it, in words; empty: nothing. `weights` (ranks,): this rank's of what each
  /// made; undefined: the ranks did not average.
  std::string compare(Drawn& drawn, const at::Tensor& weights, ProcessGroup& group);

  DataParallel& data_parallel_;
  const OptimizerConfig& optimizer_;
  const std::vector<GroupSettings> settings_;  // by parameter
  std::vector<Drawn> drawn_;
  bool clips_;
  double squares_ = 0;       // of all gradients that this rank owns, summed
  std::string off_formula_;  // in words, of the first parameter
};

}  // namespace ddprun
