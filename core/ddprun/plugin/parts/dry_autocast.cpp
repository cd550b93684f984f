// The operators of our models that autocast computes in fewer bits.
#include "ddprun/plugin/parts/dry_autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <unordered_map>

namespace ddprun {

namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::AutocastPrivateUse1;

/// By weight, which outlives its cast.
std::unordered_map<const c10::TensorImpl*, at::Tensor>& casts() {
  static auto& casts = *new std::unordered_map<const c10::TensorImpl*, at::Tensor>;
  return casts;
}

/// As at::autocast::cached_cast().
at::Tensor cast(const at::Tensor& tensor) {
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(c10::kPrivateUse1);
  if (!tensor.is_floating_point() || tensor.scalar_type() == dtype) return tensor;
  const bool keeps = tensor.scalar_type() == at::kFloat && tensor.requires_grad() &&
                     tensor.is_leaf() && !tensor.is_view() &&
                     at::autocast::is_autocast_cache_enabled();
  if (!keeps) return tensor.to(dtype);
  at::Tensor& kept = casts()[tensor.unsafeGetTensorImpl()];
  if (!kept.defined()) kept = tensor.to(dtype);
  return kept;
}

using NoAutocast = c10::impl::ExcludeDispatchKeyGuard;

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& /*bias*/) {
  const NoAutocast off(c10::autocast_dispatch_keyset);
  return at::linear(cast(x), cast(weight));
}

template <at::Tensor (*Product)(const at::Tensor&, const at::Tensor&)>
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  const NoAutocast off(c10::autocast_dispatch_keyset);
  return Product(cast(a), cast(b));
}

void register_operators() {
  static auto& others = *new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFallthrough());
  static auto& library =
      *new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  library.impl("linear", linear);
  library.impl("matmul", product<at::matmul>);
  library.impl("bmm", product<at::bmm>);
}

}  // namespace

DryAutocast::DryAutocast() : included_before_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  static const bool registered = (register_operators(), true);
  static_cast<void>(registered);
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

DryAutocast::~DryAutocast() { c10::impl::tls_set_dispatch_key_included(kKey, included_before_); }

void DryAutocast::forget() { casts().clear(); }

}  // namespace ddprun
