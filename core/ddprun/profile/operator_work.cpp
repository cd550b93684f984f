// Formulas by the operators' names.
#include "ddprun/profile/operator_work.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "ddprun/base/ranges.h"
#include "ddprun/measure/operator_listener.h"

namespace ddprun {

namespace {

template <std::size_t count>
bool is_one_of(std::string_view name, const std::array<std::string_view, count>& names) {
  return contains(names, name);
}

double count(const at::Tensor& tensor) { return static_cast<double>(tensor.numel()); }

/// a (..., m, k), b (..., k, n)
double product_of(const c10::IValue& a, const c10::IValue& b) {
  return 2 * count(a.toTensor()) * static_cast<double>(b.toTensor().size(-1));
}

/// Of q (batch, heads, queries, width) and k (batch, heads, keys, width): so many products of the
/// size of the scores'. The first truth value among the inputs says whether they are causal.
double attention_products(c10::ArrayRef<const c10::IValue> inputs, double products, int q) {
  const auto causal = std::ranges::find_if(inputs, [](auto& each) { return each.isBool(); });
  const double seen = causal != inputs.end() && causal->toBool() ? 0.5 : 1;
  return seen * products * 2 * count(inputs[q].toTensor()) *
         static_cast<double>(inputs[q + 1].toTensor().size(2));
}

double bytes_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return 0;
  return static_cast<double>(std::min(tensor.nbytes(), tensor.storage().nbytes()));  // expanded
}

/// Calls f for each defined tensor, those in lists too.
template <typename Values, typename F>
void for_tensors(const Values& values, const F& f) {
  for (const c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) f(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& each : value.toTensorVector()) f(each);
  }
}

bool looks_up(std::string_view name) {
  return is_one_of(name, std::to_array<std::string_view>({"embedding", "index_select"}));
}

/// Of c10d: what it moves takes the time of links.
bool communicates(std::string_view name) { return name.starts_with("c10d::"); }

/// Whether it gives memory; what fills that is an operator of its own.
bool gives_memory(std::string_view name) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"empty", "new_", "zeros", "ones", "full", "resize", "scalar_tensor"});
  return std::ranges::any_of(kNames, [&](auto each) { return name.starts_with(each); });
}

/// "ddprun::rope": a kernel that names itself, with all its tensors as inputs.
bool is_kernel(std::string_view name) {
  return name.find("::") != name.npos && !name.starts_with("aten::");
}

bool writes_to_given(const at::RecordFunction& call) {
  const std::string_view overload = call.overload_name();
  return std::string_view(call.name()).ends_with('_') || overload.find("out") != overload.npos;
}

}  // namespace

double product_flops_of(const at::RecordFunction& call) {
  constexpr auto kProducts =
      std::to_array<std::string_view>({"aten::mm", "aten::bmm", "aten::_scaled_mm"});
  constexpr auto kSumsOfProducts = std::to_array<std::string_view>(
      {"aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_"});
  constexpr auto kAttention = std::to_array<std::string_view>(
      {"ddprun::flash_attention", "aten::_scaled_dot_product_flash_attention_for_cpu"});
  constexpr auto kAttentionBackward = std::to_array<std::string_view>(
      {"ddprun::flash_attention_backward",
       "aten::_scaled_dot_product_flash_attention_for_cpu_backward"});
  const std::string_view name = call.name();
  const c10::ArrayRef<const c10::IValue> inputs = call.inputs();
  if (is_one_of(name, kProducts)) return product_of(inputs[0], inputs[1]);
  if (is_one_of(name, kSumsOfProducts)) return product_of(inputs[1], inputs[2]);
  if (name == "ddprun::product") {  // (m k) (k n) (m n) = (m k n)^2, whatever is transposed
    return 2 * std::round(std::sqrt(count(inputs[0].toTensor()) * count(inputs[1].toTensor()) *
                                    count(inputs[2].toTensor())));
  }
  if (is_one_of(name, kAttention)) return attention_products(inputs, 2, 0);
  // Two for each of forward, and the scores again.
  if (is_one_of(name, kAttentionBackward)) return attention_products(inputs, 5, 1);
  return 0;
}

double flops_of(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const c10::ArrayRef<const c10::IValue> inputs = call.inputs();
  if (name == "aten::_softmax") return 5 * count(inputs[0].toTensor());
  if (name == "aten::_softmax_backward_data") return 4 * count(inputs[0].toTensor());
  return product_flops_of(call);
}

GivenTensors given_tensors(const at::RecordFunction& call) {
  GivenTensors given;
  bool table = looks_up(plain_name(call.name()));  // of which it reads what it returns
  for_tensors(call.inputs(), [&](const at::Tensor& tensor) {
    if (given.dtype.empty() && tensor.is_floating_point()) {
      given.dtype = c10::getDtypeNames(tensor.scalar_type()).first;
    }
    if (tensor.has_storage()) given.storages.push_back(tensor.storage().data());
    if (!std::exchange(table, false)) given.bytes += bytes_of(tensor);
  });
  return given;
}

double moved_bytes(const at::RecordFunction& call, const GivenTensors& given) {
  const std::string_view name = plain_name(call.name());
  if (gives_memory(name) || communicates(call.name())) return 0;
  double made = 0;
  bool views = false, tensors = false;
  for_tensors(call.outputs(), [&](const at::Tensor& tensor) {
    if (!tensor.has_storage()) return;
    tensors = true;
    const bool view = contains(given.storages, tensor.storage().data());
    views |= view;
    if (!view) made += bytes_of(tensor);
  });
  if (views && made == 0 && !writes_to_given(call)) return 0;
  if (!tensors && !is_kernel(call.name())) return 0;
  return given.bytes + made * (looks_up(name) ? 2 : 1);
}

}  // namespace ddprun
