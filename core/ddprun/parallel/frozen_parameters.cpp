// Frozen parameters travel as those of fsdp do: a unit before it is used, the next meanwhile.
#include "ddprun/parallel/frozen_parameters.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "ddprun/base/ranges.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/plugin/sharding.h"

namespace ddprun {

namespace {

ParameterLayout layout_of(const ParameterRoles& roles, BufferDtypes dtypes, KernelSet kernels,
                          int ranks) {
  dtypes.parameters = dtypes.model;  // nobody updates them
  return {roles.frozen, dtypes, kernels, ranks};
}

/// Whether a slice of everything and room for two neighbouring units are less than all.
bool slices_are_less(const ParameterLayout& layout) {
  const std::int64_t all = layout.parameter_bytes(layout.all());
  const std::int64_t whole = all + bytes_of(layout.copied().size(), at::kBFloat16);
  const std::vector<std::int64_t> of_units = mapped(layout.units(), &Unit::gathered_bytes);
  const std::int64_t neighbours =
      UnitPlaces::shared_bytes(of_units, std::vector<bool>(of_units.size()));
  return all / layout.ranks() + neighbours < whole;
}

bool wants_slices(const ParameterLayout& layout, const BufferHolding& trained) {
  if (trained.parameters != Placement::sharded || trained.place_for_each_unit) return false;
  const auto& units = layout.units();
  const bool tied =
      std::ranges::any_of(units, [](const Unit& unit) { return unit.used_elsewhere; });
  return !tied && slices_are_less(layout);
}

BufferHolding holding_of(const ParameterLayout& layout, const BufferHolding& trained, int rank) {
  BufferHolding holding{.gradients = Placement::none};
  if (!wants_slices(layout, trained)) return holding;
  holding.parameters = Placement::sharded;
  for (const Unit& unit : layout.units()) holding.owned.push_back(layout.slice(unit.range, rank));
  std::ranges::reverse(holding.owned);  // by begin
  return holding;
}

/// By the model's unit: the number among those that have a frozen parameter, or -1.
std::vector<int> units_of(const ParameterRoles& roles, const ParameterLayout& layout) {
  std::vector<int> units;
  int next = 0;
  for (const std::string& name : roles.unit_names) {
    const bool ours = next < std::ssize(layout.units()) && layout.units()[next].name == name;
    units.push_back(ours ? next++ : -1);
  }
  return units;
}

}  // namespace

FrozenParameters::FrozenParameters(const ParameterRoles& roles, const FlatBuffers& trained,
                                   KernelSet kernels, ProcessGroup& group,
                                   ProcessGroup& shard_group)
    : FrozenParameters(roles, layout_of(roles, trained.dtypes(), kernels, shard_group.size()),
                       trained.holding(), group, shard_group) {}

FrozenParameters::FrozenParameters(const ParameterRoles& roles, const ParameterLayout& layout,
                                   const BufferHolding& trained, ProcessGroup& group,
                                   ProcessGroup& shard_group)
    : shard_group_(shard_group),
      buffers_(
          layout, roles.frozen, holding_of(layout, trained, shard_group.rank()),
          wants_slices(layout, trained)
              ? Allocate([&shard_group](std::int64_t elements, const at::TensorOptions& options) {
                  return shard_group.allocate(elements, options);
                })
              : allocate_private),
      context_(group, shard_group, buffers_, {}),
      units_(units_of(roles, layout)) {
  buffers_.agree_on_values(
      [&group](const at::Tensor& values) { group.broadcast(values, 0, "frozen").wait(); });
  if (buffers_.holding().parameters == Placement::replicated) return;
  for (std::size_t unit = 0; roles.units[unit] < 0; ++unit) {  // up to the first that is trained
    if (units_[unit] >= 0) ++first_in_backward_;               // those before it have no backward
  }
  gathered_.emplace(context_, AfterForward::reshard, first_in_backward_);
}

void FrozenParameters::before_forward() {
  forget();
  if (gathered_) gathered_->start(0);
}

void FrozenParameters::forget() {
  if (gathered_) gathered_->forget();
}

void FrozenParameters::before_unit(Pass pass, int models_unit) {
  if (gathered_ && units_[models_unit] >= 0) gathered_->before_unit(pass, units_[models_unit]);
}

std::vector<PlannedCollective> FrozenParameters::planned() const {
  Plan plan;
  if (gathered_) UnitParameters::plan(plan, buffers_, AfterForward::reshard, first_in_backward_);
  return plan.collectives;
}

at::Tensor FrozenParameters::whole(const Unit& unit) const {
  if (!gathered_) return buffers_.parameters(unit.range);
  const at::Tensor own = buffers_.parameters(context_.own(unit.range));
  const at::Tensor values = at::empty({unit.range.size()}, own.options());
  shard_group_.all_gather(values, own, "frozen").wait();
  return values;
}

void FrozenParameters::for_each_unit(const std::function<void(const Unit&)>& look) {
  for (int unit = 0; unit < std::ssize(buffers_.units()); ++unit) {
    if (gathered_) gathered_->before_unit(Pass::forward, unit);
    look(buffers_.units()[unit]);
  }
}

}  // namespace ddprun
