// Optimizers as one fused pass over a range of the flat buffers; clipping; learning rates.
//
// Family: optimizer.cpp device_optimizer.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/memory/memory_category.h"
#include "ddprun/memory/private_memory.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/flat_buffers.h"
#include "ddprun/optim/gradient_scale.h"
#include "ddprun/optim/optimizer_config.h"
#include "ddprun/optim/parameter_groups.h"

namespace ddprun {

/// Arrays of BufferDtypes::moments on the parameters' device. They cover only the ranges
/// touched so far, so a rank that updates a part of the parameters pays for that part alone.
class Moments {
 public:
  using Arrays = std::array<at::Tensor, 2>;

  /// `count` arrays, at most two.
  Moments(int count, const FlatBuffers& buffers)
      : count_(count),
        options_(at::TensorOptions(buffers.parameter(0).device()).dtype(buffers.dtypes().moments)) {
  }

  int count() const { return count_; }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& [begin, segment] : segments_) {
      for (int k = 0; k < count_; ++k) sum += static_cast<std::int64_t>(segment.arrays[k].nbytes());
    }
    return sum;
  }

  /// Gives their memory back.
  void drop() { segments_.clear(); }

  /// Calls `visit(part, arrays, from)` for consecutive parts that make up `range`. The part's
  /// elements begin at index `from` of each array.
  template <typename Visit>
  void for_each_part(Range range, const Visit& visit) {
    while (range.begin < range.end) {
      Segment& segment = segment_at(range);
      const Range part{range.begin, std::min(range.end, segment.range.end)};
      visit(part, segment.arrays, part.begin - segment.range.begin);
      range.begin = part.end;
    }
  }

 private:
  struct Segment {
    Range range;
    Arrays arrays;
  };

  /// The segment that holds range.begin. If there is none, a new one, which ends at the next
  /// segment.
  Segment& segment_at(Range range) {
    const auto next = segments_.upper_bound(range.begin);
    if (next != segments_.begin() && std::prev(next)->second.range.end > range.begin) {
      return std::prev(next)->second;
    }
    if (next != segments_.end()) range.end = std::min(range.end, next->first);
    Segment& segment = segments_[range.begin];
    segment.range = range;
    const MemoryScope scope(MemoryCategory::moments);
    for (int k = 0; k < count_; ++k) segment.arrays[k] = allocate_private(range.size(), options_);
    return segment;
  }

  int count_;
  at::TensorOptions options_;
  std::map<std::int64_t, Segment> segments_;  // by begin; disjoint
};

/// Updates ranges of the parameters that this rank owns from the gradients' mean. In each step:
/// begin_step() once, then at most one scale_gradients(), then update() for disjoint ranges in any
/// order. How the parameters are cut into ranges does not change the result. State (moments) is
/// allocated, zeroed, when a range is first updated.
class Optimizer {
 public:
  /// Throws ConfigError as grouped_ranges() does.
  Optimizer(const OptimizerConfig& config, FlatBuffers& buffers);
  virtual ~Optimizer();

  /// Begins a step with learning rate `lr`. A CUDA graph of the step does not contain this call.
  void begin_step(double lr);
  double lr() const { return lr_; }  ///< of the last begin_step()
  /// Multiplies this step's gradients, and skips its updates if there was an overflow. A skipped
  /// step is not counted.
  void scale_gradients(const GradientScale& scale);
  /// What scale_gradients() was last called with.
  const GradientScale& gradient_scale() const { return scaled_by_; }
  /// Updates the parameters of `range`, and their copy for the matrix products in the same pass.
  /// The gradients of `range` are undefined afterwards. Throws Error if this step has updated a
  /// part of `range` before, and if this rank does not own it (FlatBuffers::owned()).
  void update(Range range);
  /// Updates all that this rank owns and this step has not updated yet.
  void update_all();
  /// The name of a parameter of which this rank owns elements that the last step did not update;
  /// empty: there is none. Padding counts for nothing.
  std::string left_out() const;
  /// Views of what an update of `range` writes: the parameters, their copy for the matrix products
  /// where there is one, and the moments, in parts, once an update has made them.
  std::vector<at::Tensor> written_by_update(Range range);
  /// Updates `range` as the last step did: by its learning rate, scale and count of steps, or not
  /// at all if it was skipped. For whoever has put back what that update read. Not in a step.
  void update_again(Range range);
  /// Whether an element's update has the same bits whichever range it is updated in.
  virtual bool rounds_the_same_everywhere() const { return true; }
  /// The moments of what this rank owns, zero where it has updated nothing yet; their names, as
  /// torch.optim has them: exp_avg and exp_avg_sq, or momentum_buffer, or none.
  Moments& moments();
  std::vector<std::string> moment_names() const;
  /// Updates so far, skipped ones not counted: by them AdamW corrects its moments. Between steps.
  virtual std::int64_t updates() const = 0;
  virtual void set_updates(std::int64_t updates) = 0;
  /// Gives the memory of the moments back. No update comes.
  void drop_moments() { moments_.drop(); }
  /// Bytes of the moments on this rank: of what it has updated so far.
  std::int64_t state_bytes() const { return moments_.bytes(); }

 protected:
  FlatBuffers& buffers_;
  const OptimizerConfig config_;
  Moments moments_;  // AdamW: mean and mean square; SGD: the momentum's, if it has some

 private:
  virtual void start(double lr) = 0;
  virtual void scale(const GradientScale& scale) = 0;
  virtual void update_range(Range range, const GroupSettings& settings) = 0;
  /// Says that what follows is no other step.
  virtual void count_no_step() {}
  void update_by_groups(Range range);

  std::vector<GroupedRange> groups_;
  bool begun_ = false;
  double lr_ = 0;
  GradientScale scaled_by_;
  std::vector<Range> updated_;  // in this step, by begin; disjoint
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2 with decoupled decay scaled by the learning rate,
/// as torch.optim.AdamW) or SGD (with momentum and coupled weight decay, as torch.optim.SGD). By
/// kernels of our own, but SGD on a GPU, which takes ATen's operators.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, FlatBuffers& buffers);

/// The same, up to rounding, where nothing waits for values. `config` has been checked.
std::unique_ptr<Optimizer> make_device_optimizer(const OptimizerConfig& config,
                                                 FlatBuffers& buffers);

/// The L2 norm over the gradients of what this rank owns, accumulated in double: a float64 scalar
/// () on their device.
at::Tensor gradient_norm(const FlatBuffers& buffers);

/// The L2 norm, accumulated in double: a float64 scalar () on the device of `values`. It does not
/// wait for the device.
at::Tensor aten_norm(const at::Tensor& values);

/// The learning rate of step `step` (0 is the first) of `total_steps`. The schedule is constant, or
/// a cosine to the minimum (CS336 section 4.4). Both begin with a linear warm-up: step t <
/// warmup_steps takes lr * (t + 1) / warmup_steps, so that the first step is not lost and the last
/// of them has the full rate. The cosine starts at the full rate in step warmup_steps. It reaches
/// the minimum at step total_steps and stays there.
double learning_rate(const OptimizerConfig& config, std::int64_t step, std::int64_t total_steps);

}  // namespace ddprun
