// Moves parameters and gradients into flat buffers and keeps the user's tensors as views of them.
#include "ddprun/optim/flat_buffers.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <unordered_set>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

constexpr std::int64_t kAlignment = 64 / sizeof(float);  // elements; a cache line, and ATen's own

std::int64_t align(std::int64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

[[noreturn]] void refuse(ErrorText text) {
  text.where = "the model's parameters";
  throw ConfigError(std::move(text));
}

void check(const NamedTensor& parameter, const at::Tensor& first) {
  const at::Tensor& tensor = parameter.tensor;
  const std::string name = "\"" + parameter.name + "\"";
  if (!tensor.defined()) {
    refuse({.what = "parameter " + name + " is undefined",
            .got = "an empty handle",
            .expected = "a tensor",
            .hint = "give the model its parameters before"});
  }
  if (tensor.layout() != at::kStrided || tensor.scalar_type() != at::kFloat) {
    refuse({.what = "parameter " + name + " cannot move into a flat buffer",
            .got = tensor.toString(),
            .expected = "a dense float32 tensor",
            .hint = "precision plugins compute in other types and keep float32 parameters"});
  }
  if (!tensor.is_leaf()) {
    refuse({.what = "parameter " + name + " is not a leaf of the autograd graph",
            .got = "the result of an operation",
            .expected = "a leaf, as module->parameters() holds",
            .hint = "detach() it, then requires_grad_()"});
  }
  if (!tensor.requires_grad()) {
    refuse({.what = "parameter " + name + " does not require a gradient",
            .got = "requires_grad = false",
            .expected = "requires_grad = true",
            .hint = "leave frozen parameters out of the list"});
  }
  if (tensor.device() != first.device()) {
    refuse({.what = "parameter " + name + " is on another device than the first",
            .got = tensor.device().str(),
            .expected = first.device().str(),
            .hint = "move the whole model to one device"});
  }
}

void check_all(const std::vector<NamedTensor>& parameters) {
  if (parameters.empty()) {
    throw ConfigError({.what = "the model has no parameters",
                       .where = "the model's parameters",
                       .got = "an empty list",
                       .expected = "at least one",
                       .hint = "register them in the model before"});
  }
  std::unordered_set<std::string> names;
  std::unordered_set<const void*> data;  // by memory: aliases made by set_data would be untied
  for (const NamedTensor& parameter : parameters) {
    check(parameter, parameters.front().tensor);
    const bool new_name = names.insert(parameter.name).second;
    const bool new_data =
        parameter.tensor.numel() == 0 || data.insert(parameter.tensor.const_data_ptr()).second;
    if (!new_name || !new_data) {
      refuse({.what = "parameter \"" + parameter.name + "\" appears twice",
              .got = new_name ? "memory of an earlier parameter" : "its name",
              .expected = "each parameter once",
              .hint = "list a tied weight once, under one of its names"});
    }
  }
}

/// The rule that the dtypes break; empty: they fit each other.
std::string broken_rule(const BufferLayout& layout) {
  if (layout.model != at::kFloat &&
      (layout.compute != layout.model || layout.reduce != layout.model)) {
    return "products and exchanged gradients in the dtype of tensors that are not float32";
  }
  if (layout.parameters != at::kFloat && layout.parameters != layout.model) {
    return "updated parameters in float32 or in the dtype of the tensors";
  }
  if (layout.moments != at::kFloat && layout.moments != layout.parameters) {
    return "moments in float32 or in the dtype of the updated parameters";
  }
  return {};
}

void check_dtypes(const BufferLayout& layout) {
  const std::string rule = broken_rule(layout);
  if (rule.empty()) return;
  throw ConfigError(
      {.what = "the precision's dtypes do not fit each other",
       .where = "precision",
       .got = fmt::format("tensors in {}, products in {}, gradients in {}, updated "
                          "parameters in {}, moments in {}",
                          at::toString(layout.model), at::toString(layout.compute),
                          at::toString(layout.reduce), at::toString(layout.parameters),
                          at::toString(layout.moments)),
       .expected = rule,
       .hint = "the precision's parameter_dtype(), compute_dtype(), reduce_dtype(), "
               "updated_dtype(), moments_dtype()"});
}

}  // namespace

FlatBuffers::FlatBuffers(const std::vector<NamedTensor>& parameters, BufferLayout layout,
                         const Allocate& allocate)
    : layout_(layout) {
  check_all(parameters);
  check_dtypes(layout);
  std::int64_t elements = 0;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const std::int64_t size = parameter->tensor.numel();
    names_.push_back(parameter->name);
    tensors_.push_back(parameter->tensor);
    ranges_.push_back({elements, elements + size});
    elements = align(elements + size);
    parameter_count_ += size;
  }
  const at::TensorOptions options = parameters.front().tensor.options().requires_grad(false);
  parameters_ = allocate(elements, options.dtype(layout.parameters));
  if (layout.gradients) {
    reduced_ = allocate(elements, options.dtype(layout.reduce));
    gradients_ = layout.reduce == layout.model ? reduced_ : allocate_private(elements, options);
  }
  for (int i = 0; i < count(); ++i) {
    at::Tensor& tensor = tensors_[i];
    // A transposed parameter keeps its strides; one with holes or overlap cannot.
    const at::Tensor values =
        tensor.is_non_overlapping_and_dense() ? tensor.detach() : tensor.detach().contiguous();
    const at::Tensor data =
        parameters_.as_strided(values.sizes(), values.strides(), ranges_[i].begin);
    data.copy_(values);
    tensor.set_data(data);
    tensor.mutable_grad().reset();
  }
  if (layout.model != layout.parameters) {
    make_compute_copy();
    for (int i = 0; i < count(); ++i) tensors_[i].set_data(view_of(compute_, i));
  }
}

void FlatBuffers::make_compute_copy() {
  compute_ = allocate_private(parameters_.numel(), parameters_.options().dtype(layout_.compute));
  parameters_changed(all());
}

at::Tensor FlatBuffers::parameters(Range range) const {
  return parameters_.narrow(0, range.begin, range.size());
}

at::Tensor FlatBuffers::gradients(Range range) const {
  TORCH_CHECK(reduced_.defined(), "FlatBuffers::gradients of a layout without gradients");
  return reduced_.narrow(0, range.begin, range.size());
}

std::int64_t FlatBuffers::gradient_bytes(Range range) const {
  return range.size() * static_cast<std::int64_t>(reduced_.element_size());
}

at::Tensor FlatBuffers::compute_copy(Range range) const {
  return compute_.defined() ? compute_.narrow(0, range.begin, range.size()) : at::Tensor();
}

void FlatBuffers::parameters_changed(Range range) {
  if (compute_.defined()) compute_copy(range).copy_(parameters(range));
}

at::Tensor FlatBuffers::view_of(const at::Tensor& flat, int index) const {
  const at::Tensor& tensor = tensors_[index];
  return flat.as_strided(tensor.sizes(), tensor.strides(), ranges_[index].begin);
}

std::vector<ParameterSlot> FlatBuffers::slots() {
  if (layout_.model != at::kFloat ||
      (layout_.compute != at::kFloat && layout_.compute != at::kBFloat16)) {
    throw ConfigError({.what = "the fused kernels compute in float32 or bfloat16, with float32 "
                               "parameters and gradients",
                       .where = "model.kernels",
                       .got = std::string("tensors in ") + at::toString(layout_.model) +
                              ", products in " + at::toString(layout_.compute),
                       .expected = "another precision, or PyTorch's operators",
                       .hint = "set `kernels: reference` under `model:`"});
  }
  if (layout_.compute != at::kFloat && !compute_.defined()) make_compute_copy();
  std::vector<ParameterSlot> slots;
  for (int index = count() - 1; index >= 0; --index) {
    slots.push_back({.parameter = tensors_[index],
                     .compute = compute_.defined() ? view_of(compute_, index) : at::Tensor(),
                     .gradient = gradients_.defined() ? view_of(gradients_, index) : at::Tensor()});
  }
  return slots;
}

bool FlatBuffers::adopt_gradient(int index) {
  at::Tensor& gradient = tensors_[index].mutable_grad();
  if (!gradient.defined()) return false;
  const auto* const place = static_cast<const char*>(gradients_.const_data_ptr()) +
                            ranges_[index].begin * gradients_.element_size();
  if (gradient.const_data_ptr() != place) {
    const at::Tensor view = view_of(gradients_, index);
    view.copy_(gradient);
    gradient = view;
  }
  return true;
}

void FlatBuffers::finish_gradient(int index) {
  if (!reduced_.is_same(gradients_)) {
    const Range range = ranges_[index];
    gradients(range).copy_(gradients_.narrow(0, range.begin, range.size()));
  }
}

void FlatBuffers::zero_grad() {
  for (const at::Tensor& tensor : tensors_) tensor.mutable_grad().reset();
}

}  // namespace ddprun
