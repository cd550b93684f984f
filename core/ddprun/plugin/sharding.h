// What strategies work with whose ranks own a part of the parameters, beside what strategy.h has.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// One of the micro-batches of a step, whose gradients add up. The backward of the last
/// synchronizes.
struct MicroBatch {
  std::int64_t index = 0;
  std::int64_t count = 1;
  bool first() const { return index == 0; }
  bool last() const { return index + 1 == count; }
};

/// A forward, or a backward.
enum class Pass : std::uint8_t { forward, backward };

/// What a strategy hears of forward and backward, if it asks to (listen()). Training thread; in
/// backward autograd's.
class UnitListener {
 public:
  /// Called before the forward of each micro-batch that trains, and after each replay of a captured
  /// step, which calls nothing itself.
  virtual void before_forward(MicroBatch) {}
  /// Called before a unit is used, and when it is not needed any more, in each forward and
  /// backward. In backward, after_unit() comes when the gradients of the unit are final on this
  /// rank. `unit` is of layout().units(). May wait.
  virtual void before_unit(Pass, int /*unit*/) {}
  virtual void after_unit(Pass, int /*unit*/) {}

 protected:
  ~UnitListener() = default;
};

/// In setup(): `listener` hears of units from then on. One for each context.
void listen(StrategyContext& context, UnitListener& listener);

/// Collectives under way, and what is left to do once they have arrived. wait() once.
class Transfer {
 public:
  Transfer() = default;
  explicit Transfer(Work work, std::function<void()> then = {})
      : work_(std::move(work)), then_(std::move(then)) {}
  void wait();

 private:
  Work work_;
  std::function<void()> then_;
};

/// The slices of one rank, and what ranks send each other of theirs.
class Slices {
 public:
  /// The slice of `range`, which is made of whole units, that this rank owns of them
  /// (ParameterLayout::slice).
  virtual Range own(Range range) const = 0;
  /// A 1-D view of what the optimizer will read: of sharded gradients, the mean of what the rank
  /// owns, with all micro-batches so far.
  virtual at::Tensor mean(Range range) const = 0;

  /// Averages the gradients of `range`, whole units, over the ranks that share a set of slices
  /// (BufferHolding::shards; all, if the plan names no other number): on arrival this rank's slice
  /// is the mean. Of sharded gradients (one unit at a time), micro-batches add up.
  virtual Transfer reduce_scatter_gradients(Range range, std::string_view label) = 0;
  /// Sends each rank's slice of the updated parameters of whole units to all that share the set: on
  /// arrival the model reads them. They travel in the units' one dtype, without norms. Of sharded
  /// parameters: one unit.
  virtual Transfer gather_parameters(Range range, std::string_view label) = 0;
  /// Sends the updated parameters of all units' norms to all that share the set. For
  /// update(); without norms it does nothing.
  virtual Transfer gather_norms() = 0;
  /// Sends the updated parameter `index` from `owner`, the rank that owns all of it, to all, in the
  /// dtype in which the model reads it. Not of sharded parameters.
  virtual Transfer broadcast_updated(int index, int owner) = 0;
  /// Updates parameters that this rank owns. For update().
  virtual void update(Range range) = 0;
  /// The group of `ranks`, in rising order and this rank among them, in which ranks[i] is rank i.
  /// They alone call it, and it blocks until all have. It lives as long as the context. Throws
  /// CommError, and ConfigError for backend mpi, which has no subgroups.
  virtual RankGroup& subgroup(const std::vector<int>& ranks) = 0;

 protected:
  ~Slices() = default;
};

/// The same rank's. Of the core's contexts only.
Slices& slices(StrategyContext& context);

/// For plan(): what the calls of these names issue.
void plan_reduce_scatter(Plan& plan, const ParameterLayout& layout, Range range,
                         PlannedIn in = PlannedIn::step);
void plan_gather(Plan& plan, const ParameterLayout& layout, Range range,
                 PlannedIn in = PlannedIn::update);
void plan_gather_norms(Plan& plan, const ParameterLayout& layout);
void plan_broadcast(Plan& plan, const ParameterLayout& layout, int index);

}  // namespace ddprun
