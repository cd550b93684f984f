// What strategies work with that own a part of the parameters, beside what strategy.h has.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Collectives under way, and what is left to do once they have arrived. wait() once.
class Transfer {
 public:
  Transfer() = default;
  Transfer(std::vector<Work> works, std::function<void()> then)
      : works_(std::move(works)), then_(std::move(then)) {}
  void wait();

 private:
  std::vector<Work> works_;
  std::function<void()> then_;
};

/// The slices of one rank, and what ranks send each other of theirs: StrategyContext::slices().
class Slices {
 public:
  /// The slice of `range`, which is made of whole units, that this rank owns of them
  /// (ParameterLayout::slice).
  virtual Range own(Range range) const = 0;
  /// A 1-D view of what the optimizer will read: of gradients held by unit, the mean of what the
  /// rank owns, with all micro-batches so far.
  virtual at::Tensor mean(Range range) const = 0;
  /// Whether the backward under way, or the last, is of the last micro-batch of its step. So before
  /// a forward: whether it begins a step.
  virtual bool last_micro_batch() const = 0;

  /// Averages the gradients of `range`, whole units, over the ranks that share a set of slices
  /// (BufferHolding::shards; all, if the plan names no other number): on arrival this rank's slice
  /// is the mean. Of gradients held by unit (one unit at a time), micro-batches add up.
  virtual Transfer reduce_scatter_gradients(Range range, std::string_view label) = 0;
  /// Sends each rank's slice of the updated parameters to all that share the set: on arrival the
  /// model reads them. In the dtypes in which it reads them. Of parameters held by unit: one unit.
  virtual Transfer gather_parameters(Range range, std::string_view label) = 0;
  /// Of norms that stay (BufferHolding::replicate_norms): sends each rank's slices of all of them
  /// to all that share the set. gather_parameters() leaves them out.
  virtual Transfer gather_norms() = 0;
  /// Sends the updated parameter `index` from `owner`, the rank that owns all of it, to all: on
  /// arrival the model reads it. In the dtype in which it reads it, and labelled with its name. Not
  /// of parameters held by unit.
  virtual Transfer broadcast_updated(int index, int owner) = 0;

 protected:
  ~Slices() = default;
};

/// For plan(): what reduce_scatter_gradients(), gather_parameters() and gather_norms() issue. With
/// plan.holding.replicate_norms a gather leaves norms out.
void plan_reduce_scatter(Plan& plan, const ParameterLayout& layout, Range range,
                         PlannedIn in = PlannedIn::step);
void plan_gather(Plan& plan, const ParameterLayout& layout, Range range,
                 PlannedIn in = PlannedIn::update);
void plan_gather_norms(Plan& plan, const ParameterLayout& layout, PlannedIn in = PlannedIn::step);
/// An all-reduce of what mean() gives for `range`, of gradients held by unit.
void plan_mean_all_reduce(Plan& plan, const ParameterLayout& layout, Range range,
                          PlannedIn in = PlannedIn::step);
/// What broadcast_updated() issues for parameter `index`.
void plan_broadcast(Plan& plan, const ParameterLayout& layout, int index,
                    PlannedIn in = PlannedIn::update);

}  // namespace ddprun
