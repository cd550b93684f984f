// The operators by name, and the functions that allocate what they write.
#include "ddprun/model/fused_ops.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>

namespace ddprun::fused {

namespace {

/// Arguments with a letter are written. fused_ops_cpu.cpp has what the CPU does, and cuda/kernels
/// what a GPU does.
TORCH_LIBRARY_FRAGMENT(ddprun, library) {
  library.def(
      "rms_norm(Tensor x, Tensor weight, float eps, Tensor(a!) y, Tensor(b!) inverse_rms) -> ()");
  library.def(
      "rms_norm_backward(Tensor dy, Tensor[] forward, Tensor? dsum, Tensor(a!) dx, "
      "Tensor(b!) partial, Tensor(c!)? dweight) -> ()");
  library.def("rope(Tensor(a!) x, Tensor rotations, int time, int head_dim, bool inverse) -> ()");
  library.def("swiglu(Tensor up_gate, Tensor(a!) h) -> ()");
  library.def("swiglu_backward(Tensor dh, Tensor(a!) up_gate, Tensor(b!) h) -> ()");
  library.def("add(Tensor stream, Tensor branch, Tensor(a!) sum) -> ()");
  library.def("embedding_backward(Tensor dx, Tensor ids, Tensor(a!) gradient) -> ()");
  library.def(
      "cross_entropy(Tensor(a!) logits, Tensor targets, float scale, bool with_gradient, "
      "Tensor(b!) losses) -> ()");
  library.def(
      "product(Tensor a, Tensor b, Tensor(a!) out, bool transpose_a, bool transpose_b, "
      "bool add) -> ()");
}

/// One of them. It runs where its tensors are.
template <typename... Arguments>
class Operator {
 public:
  explicit Operator(const char* name)
      : handle_(
            c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<void(Arguments...)>()) {}
  void operator()(Arguments... arguments) const { handle_.call(arguments...); }

 private:
  c10::TypedOperatorHandle<void(Arguments...)> handle_;
};

using In = const at::Tensor&;
using MaybeIn = const std::optional<at::Tensor>&;

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// How many sums of rows a device keeps apart: one a thread, or enough for all of a GPU.
std::int64_t partial_sums(const at::Tensor& rows) {
  constexpr std::int64_t kOfGpu = 512;
  const std::int64_t most = rows.is_cuda() ? kOfGpu : at::get_num_threads();
  return std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, rows.size(0)));
}

/// out = a b, or out += a b if `add`; a and b may each be transposed.
void product(In a, bool transpose_a, In b, bool transpose_b, bool add, at::Tensor& out) {
  static const Operator<In, In, In, bool, bool, bool> op("ddprun::product");
  op(a, b, out, transpose_a, transpose_b, add);
}

}  // namespace

Normed rms_norm(const at::Tensor& x, const at::Tensor& weight, float eps, const at::Tensor& y) {
  static const Operator<In, In, double, In, In> op("ddprun::rms_norm");
  const Normed out = {.x = x, .y = y, .inverse_rms = at::empty({x.size(0)}, x.options())};
  op(x, weight, eps, y, out.inverse_rms);
  return out;
}

at::Tensor rms_norm_backward(const at::Tensor& dy, const Normed& normed, const at::Tensor& dsum,
                             const ParameterSlot& weight) {
  static const Operator<In, at::TensorList, MaybeIn, In, In, MaybeIn> op(
      "ddprun::rms_norm_backward");
  at::Tensor dx = at::empty_like(normed.x);
  const at::Tensor partial = at::empty({partial_sums(dy), dy.size(1)}, dx.options());
  std::optional<at::Tensor> gradient;
  if (weight.trained()) gradient = gradient_to_add_to(weight);
  op(dy, {normed.x, weight.parameter, normed.inverse_rms}, if_defined(dsum), dx, partial, gradient);
  return dx;
}

void rope(const at::Tensor& x, std::int64_t head_dim, std::int64_t time,
          const at::Tensor& rotations, bool inverse) {
  static const Operator<In, In, std::int64_t, std::int64_t, bool> op("ddprun::rope");
  op(x, rotations, time, head_dim, inverse);
}

at::Tensor swiglu(const at::Tensor& up_gate) {
  static const Operator<In, In> op("ddprun::swiglu");
  at::Tensor h = at::empty({up_gate.size(0), up_gate.size(1) / 2}, up_gate.options());
  op(up_gate, h);
  return h;
}

at::Tensor swiglu_backward(const at::Tensor& dh, at::Tensor& up_gate) {
  static const Operator<In, In, In> op("ddprun::swiglu_backward");
  at::Tensor h = at::empty_like(dh);
  op(dh, up_gate, h);
  return h;
}

void add_branch(const at::Tensor& stream, const at::Tensor& branch, at::Tensor& sum) {
  static const Operator<In, In, In> op("ddprun::add");
  op(stream, branch, sum);
}

void embedding_backward(const at::Tensor& dx, const at::Tensor& ids, const ParameterSlot& table) {
  static const Operator<In, In, In> op("ddprun::embedding_backward");
  op(dx, ids, gradient_to_add_to(table));
}

void cross_entropy(at::Tensor& logits, const at::Tensor& targets, float scale, bool with_gradient,
                   const at::Tensor& losses) {
  static const Operator<In, In, double, bool, In> op("ddprun::cross_entropy");
  op(logits, targets, scale, with_gradient, losses);
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight) {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options());
  linear_product_out(x, weight, out);
  return out;
}

void linear_product_out(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) {
  product(x, false, weight, /*transpose_b=*/true, /*add=*/false, out);
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  at::Tensor out = at::empty({dy.size(0), weight.size(1)}, dy.options());
  input_gradient_out(dy, weight, out);
  return out;
}

void input_gradient_out(const at::Tensor& dy, const at::Tensor& weight, at::Tensor& out) {
  product(dy, false, weight, false, /*add=*/false, out);
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  product(dy, /*transpose_a=*/true, x, false, add, out);
}

void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x) {
  const auto rounded = [&](at::Tensor& out) { weight_gradient(dy, x, /*add=*/false, out); };
  if (write_reduced_gradients(slots, rounded)) return;
  add_gradients(slots, x.size(1),
                [&](bool add, at::Tensor& out) { weight_gradient(dy, x, add, out); });
}

}  // namespace ddprun::fused
