// Moves parameters and gradients into flat buffers and keeps the user's tensors as views of them.
#include "ddprun/optim/flat_buffers.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/optim/parameter_check.h"
#include "ddprun/optim/parameter_reads.h"

namespace ddprun {

namespace {

/// Returns the parameters.
const std::vector<NamedTensor>& checked(const std::vector<NamedTensor>& parameters,
                                        const BufferHolding& holding) {
  check_tensors(parameters);
  if (holding.gradients != Held::nothing) check_trained(parameters);
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

void FlatBuffers::hold_by_unit(BufferPlaces& places, at::ScalarType dtype, bool for_all,
                               const Allocate& how) {
  const UnitPlaces of_units = make_places(
      [&](const Unit& unit) { return bytes_of(unit.range.size(), dtype); }, for_all, how);
  for (std::size_t i = 0; i < units().size(); ++i) {
    places.add(units()[i].range, of_units.place(static_cast<int>(i)).view(dtype));
  }
}

void FlatBuffers::hold_parameters(const Allocate& how) {
  if (holding_.parameters == Held::by_unit) {
    hold_owned(parameters_, dtypes().parameters);
    return hold_gathered(how);
  }
  parameters_.add(all(), allocate(how, all().size(), dtypes().parameters));
  copy_values(parameters(all()), all());
  for (int i = 0; i < count(); ++i) tensors_[i].set_data(shaped(parameters(range(i)), i));
  if (!reads().has_copy()) return;
  // Strategies that own a part send the copy to each other.
  copy_.add(all(), allocate(owns_all() ? allocate_private : how, all().size(), dtypes().compute));
  parameters_changed(all());
  if (dtypes().model != dtypes().parameters) point_at_copy();
}

void FlatBuffers::point_at_copy() {
  for (int i = 0; i < count(); ++i) tensors_[i].set_data(shaped(copy_.view(range(i)), i));
}

void FlatBuffers::hold_gathered(const Allocate& how) {
  const bool for_all = holding_.place_for_each_unit;
  if (!reads().has_copy()) return hold_by_unit(gathered_, dtypes().parameters, for_all, how);
  const bool norms_stay = holding_.replicate_norms;
  if (norms_stay) hold_norms(how);
  const UnitPlaces places = make_places(
      [&](const Unit& unit) { return bytes_read(*this, unit, norms_stay); }, for_all, how);
  for (std::size_t i = 0; i < units().size(); ++i) {
    const at::Tensor place = places.place(static_cast<int>(i));
    std::int64_t begin = copy_bytes(*this, units()[i]);
    if (begin > 0) {
      gathered_.add(units()[i].range, place.narrow(0, 0, begin).view(dtypes().compute));
    }
    // What is read in float32 lies behind the copy, on cache lines.
    for (const Range& range : ranges_without_copy(*this, units()[i], norms_stay)) {
      const std::int64_t bytes = bytes_of(range.size(), at::kFloat);
      gathered_float32_.add(range, place.narrow(0, begin, bytes).view(at::kFloat));
      begin += bytes;
    }
  }
}

void FlatBuffers::hold_norms(const Allocate& how) {
  const std::vector<Range> ranges = beside_copy(*this);
  norms_ = allocate(how, elements_of(ranges), at::kFloat);
  std::int64_t begin = 0;
  for (const Range& range : ranges) {
    gathered_float32_.add(range, norms_.narrow(0, begin, range.size()));
    begin += range.size();
  }
}

void FlatBuffers::hold_gradients(const Allocate& how) {
  mean_begun_.assign(units().size(), false);
  if (holding_.gradients == Held::nothing) return;
  if (holding_.gradients == Held::by_unit) {
    hold_by_unit(reduced_, dtypes().reduce, false, how);
    hold_owned(mean_, dtypes().parameters);
    if (!same_dtype_) hold_by_unit(gradients_, dtypes().model, false, allocate_private);
  } else {
    reduced_.add(all(), allocate(how, all().size(), dtypes().reduce));
    if (!same_dtype_) {
      gradients_.add(all(), allocate(allocate_private, all().size(), dtypes().model));
    }
  }
  if (same_dtype_) gradients_ = reduced_;
  stand_in_ = at::full({1}, std::numeric_limits<float>::quiet_NaN(), options_);
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
  if (holding_.parameters == Held::whole) {
    agree(parameters(all()));
    return parameters_changed(all());
  }
  for (const Unit& unit : units()) {
    const at::Tensor values = at::zeros({unit.range.size()}, options_.dtype(dtypes().parameters));
    copy_values(values, unit.range);
    agree(values);
    for (const Range& own : owned_) {
      const Range part = shared(own, unit.range);
      if (part.size() <= 0) continue;
      parameters(part).copy_(part_of(values, unit.range, part));
    }
    for (int index = unit.first; index <= unit.last; ++index) point_at_gathered(index);
  }
}

/// True if the copy is all that anyone reads of it.
bool FlatBuffers::read_by_kernels_alone(int index) const {
  return reads().has_copy() && dtypes().compute != dtypes().model && !reads().in_float32(index);
}

void FlatBuffers::point_at_gathered(int index) {
  if (gathered_float32_.holds(range(index))) {
    tensors_[index].set_data(shaped(gathered_float32(range(index)), index));
  } else if (read_by_kernels_alone(index)) {
    tensors_[index].set_data(at::zeros({1}, options_).expand(shapes_[index].sizes));
  } else {
    tensors_[index].set_data(shaped(gathered(range(index)), index));
  }
}

at::Tensor FlatBuffers::gradients(Range range) const {
  TORCH_CHECK(!reduced_.empty(), "FlatBuffers::gradients of buffers without gradients");
  return reduced_.view(range);
}

at::Tensor FlatBuffers::mean(Range range) const {
  return holding_.gradients == Held::by_unit ? mean_.view(range) : gradients(range);
}

at::Tensor FlatBuffers::compute_copy(Range range) const {
  return copy_.empty() ? at::Tensor() : copy_.view(range);
}

void FlatBuffers::parameters_changed(Range range) {
  if (!copy_.empty()) compute_copy(range).copy_(parameters(range));
}

std::vector<at::Tensor> FlatBuffers::read(int index) const {
  std::vector<at::Tensor> views;
  const at::Tensor& tensor = tensors_[index];
  // Where ranks own parts, such a tensor is not renewed outside of what this rank owns.
  if (!read_by_kernels_alone(index) || owns_all()) {
    views.push_back(tensor.variable_data().as_strided({tensor.numel()}, {1}));
  }
  if (reads().in_float32(index) && !reads().both(index)) return views;
  if (!copy_.empty()) views.push_back(copy_.view(range(index)));
  if (gathered_.holds(range(index))) views.push_back(gathered(range(index)));
  return views;
}

at::Tensor FlatBuffers::empty_like(int index) const {
  return at::empty_strided(shapes_[index].sizes, shapes_[index].strides, at::kFloat);
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
  TORCH_CHECK(without_copy || reads().has_copy(),
              "buffers laid out for PyTorch's operators have no slots");
  std::vector<ParameterSlot> slots;
  for (int index = count() - 1; index >= 0; --index) {
    const Range range = this->range(index);
    ParameterSlot slot{.parameter = tensors_[index], .compute = {}, .gradient = {}};
    // Views whose version autograd does not compare: a unit's place is filled again before backward
    // reads it.
    if (!copy_.empty()) slot.compute = shaped(copy_.view(range).variable_data(), index);
    if (reads().has_copy() && gathered_.holds(range)) {
      slot.compute = shaped(gathered(range).variable_data(), index);
    }
    if (!gradients_.empty()) slot.gradient = shaped(gradients_.view(range), index);
    slot.reduced = reduced_gradient(index);
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::optional<ReducedGradient> FlatBuffers::reduced_gradient(int index) const {
  const bool bfloat16 = dtypes().reduce == at::kBFloat16 && dtypes().compute == at::kBFloat16;
  if (!bfloat16 || reduced_.empty()) return {};
  return ReducedGradient{.memory = shaped(reduced_.view(range(index)), index),
                         .stand_in = stand_in_.expand(shapes_[index].sizes),
                         .allowed = may_write_reduced_};
}

bool FlatBuffers::written_reduced(int index) const {
  return stands_in(stand_in_, tensors_[index].grad());
}

void FlatBuffers::expect_micro_batches(std::int64_t count) {
  // Those of gradients held by unit add up in the mean.
  *may_write_reduced_ = count == 1 || holding_.gradients == Held::by_unit;
}

bool FlatBuffers::adopt_gradient(int index) {
  at::Tensor& gradient = tensors_[index].mutable_grad();
  if (!gradient.defined()) return false;
  if (written_reduced(index)) return true;
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
  if (holding_.gradients == Held::whole) return;
  // Another unit's gradients may have lain where this one has padding, which travels along.
  gradients({range.end, with_padding(index).end}).zero_();
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
  mean_begun_.assign(mean_begun_.size(), false);
}

}  // namespace ddprun
