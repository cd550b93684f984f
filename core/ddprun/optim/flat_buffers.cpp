// Moves parameters and gradients into flat buffers and keeps the user's tensors as views of them.
#include "ddprun/optim/flat_buffers.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/memory/memory_category.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/optim/layout_data.h"
#include "ddprun/optim/parameter_check.h"

namespace ddprun {

namespace {

/// Returns the parameters.
const std::vector<NamedTensor>& checked(const std::vector<NamedTensor>& parameters,
                                        const BufferHolding& holding) {
  check_tensors(parameters);
  if (holding.gradients != Placement::none) check_trained(parameters);
  return parameters;
}

std::vector<Range> owned_of(const BufferHolding& holding, Range all) {
  if (holding.owned.empty()) return {all};
  std::vector<Range> owned = holding.owned;
  std::erase_if(owned, [](const Range& range) { return range.size() == 0; });
  return owned;
}

}  // namespace

FlatBuffers::FlatBuffers(const std::vector<NamedTensor>& parameters, BufferDtypes dtypes,
                         const Allocate& allocate, KernelSet kernels)
    : FlatBuffers(ParameterLayout(parameters, dtypes, kernels, 1), parameters, {}, allocate) {}

FlatBuffers::FlatBuffers(const ParameterLayout& layout, const std::vector<NamedTensor>& parameters,
                         BufferHolding holding, const Allocate& allocate)
    : ParameterLayout(layout),
      holding_(std::move(holding)),
      owned_(owned_of(holding_, all())),
      options_(parameters.front().tensor.options().requires_grad(false)),
      same_dtype_(dtypes().reduce == dtypes().model) {
  for (auto parameter = checked(parameters, holding_).rbegin(); parameter != parameters.rend();
       ++parameter) {
    at::Tensor tensor = parameter->tensor;
    // A transposed parameter keeps its strides; one with holes or overlap cannot.
    if (!tensor.is_non_overlapping_and_dense()) tensor.set_data(tensor.detach().contiguous());
    tensors_.push_back(tensor);
    shapes_.push_back({tensor.sizes().vec(), tensor.strides().vec()});
  }
  hold_parameters(allocate);
  hold_gradients(allocate);
  zero_grad();
}

at::Tensor FlatBuffers::allocate(const Allocate& how, std::int64_t elements, at::ScalarType dtype) {
  allocated_bytes_ += bytes_of(elements, dtype);
  return how(elements, options_.dtype(dtype));
}

void FlatBuffers::hold_owned(BufferPlaces& places, at::ScalarType dtype) {
  for (const Range& range : owned_) {
    places.add(range, allocate(allocate_private, range.size(), dtype));
  }
}

UnitPlaces FlatBuffers::make_places(const std::function<std::int64_t(const Unit&)>& bytes,
                                    bool for_all, const Allocate& how) {
  std::vector<std::int64_t> sizes;
  std::vector<bool> stays;
  for (const Unit& unit : units()) {
    sizes.push_back(bytes(unit));
    stays.push_back(for_all || unit.used_elsewhere);
  }
  UnitPlaces places(sizes, stays, how, options_);
  allocated_bytes_ += places.bytes();
  return places;
}

void FlatBuffers::hold_by_unit(BufferPlaces& places, at::ScalarType dtype, const Allocate& how) {
  const UnitPlaces of_units =
      make_places([&](const Unit& unit) { return bytes_of(unit.range.size(), dtype); }, false, how);
  for (std::size_t i = 0; i < units().size(); ++i) {
    places.add(units()[i].range, of_units.place(static_cast<int>(i)).view(dtype));
  }
}

void FlatBuffers::hold_parameters(const Allocate& how) {
  std::optional<MemoryScope> scope(std::in_place, MemoryCategory::parameters);
  if (holding_.parameters == Placement::sharded) {
    hold_owned(parameters_, dtypes().parameters);
    scope.reset();
    return hold_gathered(how);
  }
  parameters_.add(all(), allocate(how, all().size(), dtypes().parameters));
  copy_values(parameters(all()), all());
  for (int i = 0; i < count(); ++i) tensors_[i].set_data(shaped(parameters(range(i)), i));
  scope.reset();
  if (copied().size() == 0) return;
  const MemoryScope of_copy(MemoryCategory::compute_copy);
  // Strategies that own a part send the copy to each other.
  const Allocate& how_copied = owns_all() ? allocate_private : how;
  copy_.add(copied(), allocate(how_copied, copied().size(), dtypes().compute));
  parameters_changed(all());
  if (dtypes().model != dtypes().parameters) point_at_copy();
}

void FlatBuffers::point_at_copy() {
  for (int i = 0; i < count(); ++i) tensors_[i].set_data(shaped(copy_.view(range(i)), i));
}

void FlatBuffers::hold_gathered(const Allocate& how) {
  const MemoryScope scope(MemoryCategory::compute_copy);
  const UnitPlaces places = make_places([&](const Unit& unit) { return unit.gathered_bytes; },
                                        holding_.place_for_each_unit, how);
  for (std::size_t i = 0; i < units().size(); ++i) {
    const Unit& unit = units()[i];
    const at::Tensor place = places.place(static_cast<int>(i));
    const std::int64_t bytes = bytes_of(unit.range.size(), unit.dtype);
    gathered_.add(unit.range, place.narrow(0, 0, bytes).view(unit.dtype));
    const std::int64_t copied = unit.gathered_bytes - bytes;  // behind it, on cache lines
    if (copied == 0) continue;
    gathered_copy_.add(unit.range, place.narrow(0, bytes, copied).view(dtypes().compute));
  }
  for (const int index : norms_of(*this)) {
    norms_.add(range(index), allocate(allocate_private, range(index).size(), at::kFloat));
  }
}

void FlatBuffers::hold_gradients(const Allocate& how) {
  mean_begun_.assign(units().size(), false);
  if (holding_.gradients == Placement::none) return;
  const MemoryScope scope(MemoryCategory::gradients);
  if (holding_.gradients == Placement::sharded) {
    hold_by_unit(reduced_, dtypes().reduce, how);
    hold_owned(mean_, dtypes().parameters);
    if (!same_dtype_) hold_by_unit(gradients_, dtypes().model, allocate_private);
  } else {
    reduced_.add(all(), allocate(how, all().size(), dtypes().reduce));
    if (!same_dtype_) {
      gradients_.add(all(), allocate(allocate_private, all().size(), dtypes().model));
    }
  }
  if (same_dtype_) gradients_ = reduced_;
  if (holding_.gradients == Placement::replicated) {
    scratch_ = std::make_shared<GradientScratch>(gradients_.view(all()));
  }
  placeholder_ = at::full({1}, std::numeric_limits<float>::quiet_NaN(), options_);
}

/// Writes the values that the user's tensors have to their places in `flat`, which holds `range`.
void FlatBuffers::copy_values(const at::Tensor& flat, Range range) const {
  for (int i = 0; i < count(); ++i) {
    const Range own = this->range(i);
    if (!range.contains(own)) continue;
    shaped(part_of(flat, range, own), i).copy_(tensors_[i].detach());
  }
}

void FlatBuffers::agree_on_values(const std::function<void(const at::Tensor&)>& agree) {
  if (holding_.parameters == Placement::replicated) {
    agree(parameters(all()));
    return parameters_changed(all());
  }
  for (const Unit& unit : units()) {
    const at::Tensor values = at::zeros({unit.range.size()}, options_.dtype(dtypes().parameters));
    copy_values(values, unit.range);
    agree(values);
    put_values(values, unit);
    for (int index = unit.first; index <= unit.last; ++index) point_at_gathered(index);
  }
}

void FlatBuffers::set_parameters(
    const std::function<void(const at::Tensor& values, Range range)>& fill) {
  if (holding_.parameters == Placement::replicated) {
    fill(parameters(all()), all());
    return parameters_changed(all());
  }
  for (const Unit& unit : units()) {
    const at::Tensor values = at::zeros({unit.range.size()}, options_.dtype(dtypes().parameters));
    fill(values, unit.range);
    put_values(values, unit);
  }
}

/// Of sharded parameters: keeps what this rank owns of a unit's values, and its norms.
void FlatBuffers::put_values(const at::Tensor& values, const Unit& unit) {
  for (const Range& own : owned_) {
    const Range part = shared(own, unit.range);
    if (part.size() > 0) parameters(part).copy_(part_of(values, unit.range, part));
  }
  for (int index = unit.first; index <= unit.last; ++index) {
    const Range own = range(index);
    if (norms_.holds(own)) norms_.view(own).copy_(part_of(values, unit.range, own));
  }
}

const BufferDtypes& FlatBuffers::dtypes() const { return data_->dtypes; }

/// True if the copy is all that anyone reads of it.
bool FlatBuffers::read_by_kernels_alone(int index) const {
  return read_dtype(*this, index) != dtypes().model;
}

void FlatBuffers::point_at_gathered(int index) {
  if (norms_.holds(range(index))) {
    tensors_[index].set_data(shaped(norm(index), index));
  } else if (read_by_kernels_alone(index)) {
    tensors_[index].set_data(at::zeros({1}, options_).expand(shapes_[index].sizes));
  } else {
    tensors_[index].set_data(shaped(gathered_.view(range(index)), index));
  }
}

at::Tensor FlatBuffers::gathered(Range range) const {
  if (holding_.parameters == Placement::sharded) return gathered_.view(range);
  return has_copy() && gather_dtype(*this, range) == dtypes().compute ? copy_.view(range)
                                                                      : parameters(range);
}

void FlatBuffers::renew_copy(Range range) {
  for (int index = 0; index < count(); ++index) {
    const Range own = this->range(index);
    if (!data_->copied_too[index] || !range.contains(own)) continue;
    if (gathered_copy_.holds(own)) gathered_copy_.view(own).copy_(gathered_.view(own));
    if (holding_.parameters == Placement::replicated) parameters_changed(own);
  }
}

at::Tensor FlatBuffers::norm(int index) const {
  const Range range = this->range(index);
  return norms_.holds(range) ? norms_.view(range) : parameters(range);
}

at::Tensor FlatBuffers::gradients(Range range) const {
  TORCH_CHECK(!reduced_.empty(), "FlatBuffers::gradients of buffers without gradients");
  return reduced_.view(range);
}

at::Tensor FlatBuffers::mean(Range range) const {
  return holding_.gradients == Placement::sharded ? mean_.view(range) : gradients(range);
}

at::Tensor FlatBuffers::compute_copy(Range range) const {
  const bool copied = !copy_.empty() && shared(range, this->copied()).size() > 0;
  return copied ? copy_.view(range) : at::Tensor();
}

void FlatBuffers::parameters_changed(Range range) {
  const Range part = shared(range, copied());
  if (!copy_.empty() && part.size() > 0) compute_copy(part).copy_(parameters(part));
}

std::vector<at::Tensor> FlatBuffers::read(int index) const {
  std::vector<at::Tensor> views;
  const at::Tensor& tensor = tensors_[index];
  // Where ranks own parts, such a tensor is not renewed outside of what this rank owns.
  if (!read_by_kernels_alone(index) || owns_all()) {
    views.push_back(tensor.variable_data().as_strided({tensor.numel()}, {1}));
  }
  const at::Tensor copy = copy_of(index);
  if (copy.defined() && (read_dtype(*this, index) != at::kFloat || data_->copied_too[index])) {
    views.push_back(copy);
  }
  return views;
}

/// What products read of it, 1-D; undefined: the parameter itself.
at::Tensor FlatBuffers::copy_of(int index) const {
  const Range range = this->range(index);
  if (!copy_.empty()) return compute_copy(range);
  if (gathered_copy_.holds(range)) return gathered_copy_.view(range);
  const bool gathered = has_copy() && units()[unit_of(index)].dtype == dtypes().compute;
  return gathered && gathered_.holds(range) ? gathered_.view(range) : at::Tensor();
}

at::Tensor FlatBuffers::empty_like(int index) const {
  return at::empty_strided(shapes_[index].sizes, shapes_[index].strides, at::kFloat);
}

at::Tensor FlatBuffers::empty_gradient(int index) const {
  const bool here = options_.device().is_cpu() && dtypes().model == at::kFloat;
  if (!here || tensors_[index].grad().defined()) return empty_like(index);
  const at::Tensor place = gradients_.view(range(index));
  if (scratch_) scratch_->claim(place);
  return shaped(place, index);
}

/// `flat`: the elements of parameter `index`, as the user's tensor lies in memory.
at::Tensor FlatBuffers::shaped(const at::Tensor& flat, int index) const {
  return flat.as_strided(shapes_[index].sizes, shapes_[index].strides);
}

std::vector<ParameterSlot> FlatBuffers::slots() const {
  const bool without_copy = dtypes().compute == at::kFloat;
  if (dtypes().model != at::kFloat || (!without_copy && dtypes().compute != at::kBFloat16)) {
    throw ConfigError({.what = "the fused kernels compute in float32 or bfloat16, with float32 "
                               "parameters and gradients",
                       .where = "model.kernels",
                       .got = std::string("tensors in ") + at::toString(dtypes().model) +
                              ", products in " + at::toString(dtypes().compute),
                       .expected = "another precision, or PyTorch's operators",
                       .hint = "set `kernels: reference` under `model:`"});
  }
  TORCH_CHECK(without_copy || has_copy(), "buffers laid out for PyTorch's operators have no slots");
  std::vector<ParameterSlot> slots;
  for (int index = count() - 1; index >= 0; --index) {
    const Range range = this->range(index);
    ParameterSlot slot{.parameter = tensors_[index], .compute = {}, .gradient = {}};
    // Views whose version autograd does not compare: a unit's place is filled again before backward
    // reads it.
    if (const at::Tensor copy = copy_of(index); copy.defined()) {
      slot.compute = shaped(copy.variable_data(), index);
    }
    if (!gradients_.empty()) slot.gradient = shaped(gradients_.view(range), index);
    slot.reduced = reduced_gradient(index);
    slot.scratch = scratch_;
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::optional<ReducedGradient> FlatBuffers::reduced_gradient(int index) const {
  const bool bfloat16 = dtypes().reduce == at::kBFloat16 && dtypes().compute == at::kBFloat16;
  if (!bfloat16 || reduced_.empty()) return {};
  return ReducedGradient{.memory = shaped(reduced_.view(range(index)), index),
                         .placeholder = placeholder_.expand(shapes_[index].sizes),
                         .allowed = may_write_reduced_};
}

bool FlatBuffers::written_reduced(int index) const {
  return is_placeholder(placeholder_, tensors_[index].grad());
}

void FlatBuffers::expect_micro_batches(std::int64_t count) {
  // Those of gradients held by unit add up in the mean.
  *may_write_reduced_ = count == 1 || holding_.gradients == Placement::sharded;
}

bool FlatBuffers::adopt_gradient(int index) {
  at::Tensor& gradient = tensors_[index].mutable_grad();
  if (!gradient.defined()) return false;
  if (written_reduced(index)) return true;
  if (scratch_) scratch_->claim(gradients_.view(with_padding(index)));
  const at::Tensor place = gradients_.view(range(index));
  if (gradient.const_data_ptr() != place.const_data_ptr()) {
    const at::Tensor view = shaped(place, index);
    view.copy_(gradient);
    gradient = view;
  }
  return true;
}

void FlatBuffers::finish_gradient(int index) {
  const Range range = this->range(index);
  if (!same_dtype_ && !written_reduced(index)) gradients(range).copy_(gradients_.view(range));
  // Other memory may have lain where this one has padding, which travels along.
  const Range padding = {range.end, with_padding(index).end};
  if (padding.size() > 0) gradients(padding).zero_();
}

void FlatBuffers::add_mean(int unit, Range slice, const at::Tensor& mean) {
  const at::Tensor sum = this->mean(slice);
  if (!mean_begun_[unit]) {
    if (sum.const_data_ptr() != mean.const_data_ptr()) sum.copy_(mean);
  } else {
    sum.add_(mean);
  }
  mean_begun_[unit] = true;
  for (int index = units()[unit].first; index <= units()[unit].last; ++index) {
    tensors_[index].mutable_grad().reset();
  }
}

std::vector<Range> FlatBuffers::owned(Range range) const {
  std::vector<Range> parts;
  for (const Range& own : owned_) {
    const Range part = shared(own, range);
    if (part.size() > 0) parts.push_back(part);
  }
  return parts;
}

void FlatBuffers::zero_grad() {
  for (const at::Tensor& tensor : tensors_) tensor.mutable_grad().reset();
  if (scratch_) scratch_->release();
  mean_begun_.assign(mean_begun_.size(), false);
}

}  // namespace ddprun
