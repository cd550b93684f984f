// The check of a step's gradients: what the strategy made of them against their mean.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// Watches one step of training: keeps this rank's gradients as its backward made them, before the
/// strategy hears of them, and what the strategy made of them. Once the step is over it compares
/// that with the mean over the ranks, to the rounding of the dtypes. On the CPU it compares, too,
/// what the model reads in forward and in backward with the parameters before the step, whichever
/// rank owns them, and what a micro-batch begins to add to with what the one before left. It looks
/// at a drawn run of elements in each parameter, the same on all ranks; other draws look at others.
/// Where the strategy promises less than the mean (Agreement), the check is of what it promises:
/// with error feedback of the two together, and the feedback must last until the next step.
/// Training thread.
class MeanProof {
 public:
  /// Between steps. `data_parallel` outlives this object. All ranks make it, by equal draws.
  MeanProof(DataParallel& data_parallel, std::uint64_t draw);
  ~MeanProof();
  MeanProof(const MeanProof&) = delete;
  MeanProof& operator=(const MeanProof&) = delete;

  /// When backward has synchronized, before Strategy::update().
  void keep_means();
  /// After the step ("gradients_averaged"). All ranks call it.
  Check finish(ProcessGroup& group);

 private:
  /// Of all parameters' runs together, float32, one after another; undefined if `flat` is.
  at::Tensor all_of(const at::Tensor& flat) const;
  /// What is wrong on this rank, in words; empty: nothing.
  std::string compare(ProcessGroup& group) const;
  /// Of gradients that add up, between one micro-batch and the next.
  void keep_partial(int index);
  void look_at_partial();
  /// `view`, a 1-D tensor of a range, of what this rank owns of all runs, else 0; float32.
  at::Tensor own_part(const std::function<at::Tensor(Range)>& view) const;
  /// The parameters of all runs together, float32, whichever rank owns them. All ranks call it.
  at::Tensor parameters() const;
  void look_at_read(int index, const char* pass);
  double rounding() const;
  bool averages() const;
  bool loses_the_rest() const;  // of its gradients, which then are not what backward made
  /// What the gradients are to be, in words.
  std::string promised() const;

  DataParallel& data_parallel_;
  std::vector<Range> runs_;  // by parameter
  int exchanges_ = 0;        // of each gradient in the step: micro-batches that travel
  /// Of each run: the parameters before the step as the model is to read them, FlatBuffers::read().
  std::vector<std::vector<at::Tensor>> before_;
  std::vector<at::Tensor> partial_;    // of each run: as a micro-batch left it
  std::string changed_;                // of partial_, or what was read instead, in words
  std::vector<at::Tensor> own_;        // of each run: the sum over micro-batches
  std::vector<at::Tensor> own_sizes_;  // the same of their absolute values
  at::Tensor means_, owned_;           // of all runs: the result, and where this rank has it
  at::Tensor feedback_before_, feedback_;
};

}  // namespace ddprun
