// Autocast, held during a forward, and put back as it was.
#include "ddprun/plugin/parts/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <unordered_map>

namespace ddprun {

namespace autocast = at::autocast;

namespace {

/// Of tensors of device meta, here: no backend of that name is in a process that has such.
constexpr c10::DispatchKey kKey = c10::DispatchKey::AutocastPrivateUse1;

/// By weight, which outlives its cast.
std::unordered_map<const c10::TensorImpl*, at::Tensor>& casts() {
  static auto& casts = *new std::unordered_map<const c10::TensorImpl*, at::Tensor>;
  return casts;
}

/// As at::autocast::cached_cast().
at::Tensor cast(const at::Tensor& tensor) {
  const at::ScalarType dtype = autocast::get_autocast_dtype(c10::kPrivateUse1);
  if (!tensor.is_floating_point() || tensor.scalar_type() == dtype) return tensor;
  const bool keeps = tensor.scalar_type() == at::kFloat && tensor.requires_grad() &&
                     tensor.is_leaf() && !tensor.is_view() && autocast::is_autocast_cache_enabled();
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

AutocastGuard::AutocastGuard(c10::DeviceType device, c10::ScalarType dtype)
    : device_(device == c10::kMeta ? c10::kPrivateUse1 : device),
      enabled_before_(autocast::is_autocast_enabled(device_)),
      dtype_before_(autocast::get_autocast_dtype(device_)),
      dry_before_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  if (device == c10::kMeta) {
    static const bool registered = (register_operators(), true);
    static_cast<void>(registered);
    c10::impl::tls_set_dispatch_key_included(kKey, true);
  }
  autocast::set_autocast_enabled(device_, true);
  autocast::set_autocast_dtype(device_, dtype);
  autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  // Within the outermost guard each weight is cast once; the casts are stale after the optimizer's
  // step.
  if (autocast::decrement_nesting() == 0) {
    autocast::clear_cache();
    if (device_ == c10::kPrivateUse1) casts().clear();
  }
  autocast::set_autocast_enabled(device_, enabled_before_);
  autocast::set_autocast_dtype(device_, dtype_before_);
  if (device_ == c10::kPrivateUse1) c10::impl::tls_set_dispatch_key_included(kKey, dry_before_);
}

}  // namespace ddprun
