// torch.ops.ddprun.flash_attention: the kernels of FlashAttention-2 for programs in Python.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "ddprun/kernels/attention/flash_of_tensors.h"

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Scale = std::optional<double>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Tensors are (batch, heads, time, width), or (batch, time, width): then there is one head.

void check_inputs(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const Scale& scale) {
  const char* const name = "ddprun::flash_attention: ";
  TORCH_CHECK(q.dim() == 3 || q.dim() == 4, name,
              "q must be (batch, heads, queries, width) or (batch, queries, width), not ",
              q.sym_sizes());
  TORCH_CHECK(k.dim() == q.dim() && v.dim() == q.dim(), name,
              "q, k and v must have as many "
              "dimensions: ",
              q.dim(), ", ", k.dim(), " and ", v.dim());
  TORCH_CHECK(k.sym_sizes() == v.sym_sizes(), name, "k and v must have one shape: ", k.sym_sizes(),
              " and ", v.sym_sizes());
  TORCH_CHECK(q.sym_size(0) == k.sym_size(0) && q.sym_size(-1) == k.sym_size(-1) &&
                  (q.dim() == 3 || q.sym_size(1) == k.sym_size(1)),
              name, "q and k may differ in their number of rows alone: ", q.sym_sizes(), " and ",
              k.sym_sizes());
  TORCH_CHECK(k.sym_size(-2) > 0 && q.sym_size(-1) > 0, name,
              "there must be at least one key, and a width: ", k.sym_sizes());
  TORCH_CHECK(q.scalar_type() == at::kFloat || q.scalar_type() == at::kBFloat16, name,
              "it computes in float32 or bfloat16, not in ", q.scalar_type());
  TORCH_CHECK(k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type(), name,
              "q, k and v must have one dtype: ", q.scalar_type(), ", ", k.scalar_type(), " and ",
              v.scalar_type());
  TORCH_CHECK(!scale || *scale > 0.0, name, "scale must be positive, not ", scale.value_or(0.0));
}

at::Tensor with_heads(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(1) : tensor;
}

at::Tensor as_given(const at::Tensor& of_heads, const at::Tensor& like) {
  return like.dim() == 3 ? of_heads.squeeze(1) : of_heads;
}

Two forward_on_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal,
                   Scale scale) {
  check_inputs(q, k, v, scale);
  const auto [out, log_sum_exp] = ddprun::kernels::flash_forward(
      with_heads(q), with_heads(k), with_heads(v), {is_causal}, scale.value_or(0.0));
  return {as_given(out, q), as_given(log_sum_exp, q)};
}

/// `saved`: q, k, v, and what forward returned.
Three backward_on_cpu(const at::Tensor& grad_out, at::TensorList saved, bool is_causal,
                      Scale scale) {
  TORCH_CHECK(saved.size() == 5,
              "ddprun::flash_attention_backward: saved must be q, k, v, out, log_sum_exp");
  const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
  const at::Tensor &out = saved[3], &log_sum_exp = saved[4];
  check_inputs(q, k, v, scale);
  TORCH_CHECK(out.sizes() == q.sizes() && grad_out.sizes() == q.sizes() &&
                  log_sum_exp.sizes() == q.sizes().slice(0, q.dim() - 1),
              "ddprun::flash_attention_backward: out and grad_out must have q's shape, ", q.sizes(),
              ", and log_sum_exp all of it but the width: ", out.sizes(), ", ", grad_out.sizes(),
              " and ", log_sum_exp.sizes());
  TORCH_CHECK(out.scalar_type() == q.scalar_type() && grad_out.scalar_type() == q.scalar_type() &&
                  log_sum_exp.scalar_type() == at::kFloat,
              "ddprun::flash_attention_backward: out and grad_out must have q's dtype, and "
              "log_sum_exp float32");
  const auto [dq, dk, dv] = ddprun::kernels::flash_backward(
      with_heads(grad_out), with_heads(q), with_heads(k), with_heads(v),
      {with_heads(out), with_heads(log_sum_exp).contiguous()}, {is_causal}, scale.value_or(0.0));
  return {as_given(dq, q), as_given(dk, k), as_given(dv, v)};
}

/// Memory as the kernels lay it out: (batch, time, heads, width).
at::Tensor empty_like_heads(const at::Tensor& tensor) {
  if (tensor.dim() == 3) return at::empty_symint(tensor.sym_sizes(), tensor.options());
  const auto sizes = tensor.sym_sizes();
  return at::empty_symint({sizes[0], sizes[2], sizes[1], sizes[3]}, tensor.options())
      .transpose(1, 2);
}

Two forward_of_shapes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      bool /*is_causal*/, Scale scale) {
  check_inputs(q, k, v, scale);
  return {empty_like_heads(q),
          at::empty_symint(q.sym_sizes().slice(0, q.dim() - 1), q.options().dtype(at::kFloat))};
}

Three backward_of_shapes(const at::Tensor& /*grad_out*/, at::TensorList saved, bool /*is_causal*/,
                         Scale scale) {
  check_inputs(saved[0], saved[1], saved[2], scale);
  return {empty_like_heads(saved[0]), empty_like_heads(saved[1]), empty_like_heads(saved[2])};
}

Two call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool is_causal,
                 Scale scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ddprun::flash_attention_forward", "")
                             .typed<decltype(forward_on_cpu)>();
  return op.call(q, k, v, is_causal, scale);
}

struct FlashAttention : torch::autograd::Function<FlashAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, bool is_causal, Scale scale) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [out, log_sum_exp] = call_forward(q, k, v, is_causal, scale);
    context->save_for_backward({q, k, v, out, log_sum_exp});
    context->saved_data["is_causal"] = is_causal;
    context->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!c10::GradMode::is_enabled(), "ddprun::flash_attention has no second derivatives");
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("ddprun::flash_attention_backward", "")
                               .typed<decltype(backward_on_cpu)>();
    const auto [dq, dk, dv] = op.call(gradients[0], context->get_saved_variables(),
                                      context->saved_data["is_causal"].toBool(),
                                      context->saved_data["scale"].toOptional<double>());
    return {dq, dk, dv, {}, {}};
  }
};

at::Tensor with_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         bool is_causal, Scale scale) {
  return FlashAttention::apply(q, k, v, is_causal, scale);
}

at::Tensor without_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            bool is_causal, Scale scale) {
  return std::get<0>(call_forward(q, k, v, is_causal, scale));
}

/// A second definition of an operator would end the program, and so would this library's second
/// copy, built and installed. Nothing: the operators are there.
std::unique_ptr<torch::Library> define_operators() {
  if (c10::Dispatcher::singleton().findSchema({"ddprun::flash_attention", ""})) return nullptr;
  auto library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "ddprun", std::nullopt,
                                                  __FILE__, __LINE__);
  const std::string inputs = "Tensor q, Tensor k, Tensor v";
  const std::string options = "bool is_causal=False, float? scale=None";
  for (const std::string& schema :
       {"flash_attention(" + inputs + ", " + options + ") -> Tensor",
        "flash_attention_forward(" + inputs + ", " + options + ") -> (Tensor, Tensor)",
        "flash_attention_backward(Tensor grad_out, Tensor[] saved, " + options +
            ") -> (Tensor, Tensor, Tensor)"}) {
    library->def(schema.c_str());
  }
  const auto under = [](c10::DispatchKey key, auto function) {
    return torch::dispatch(key, torch::CppFunction::makeFromUnboxedFunction(function));
  };
  library->impl("flash_attention", under(c10::DispatchKey::Autograd, &with_autograd));
  library->impl("flash_attention",
                under(c10::DispatchKey::CompositeExplicitAutograd, &without_autograd));
  library->impl("flash_attention_forward", under(c10::DispatchKey::CPU, &forward_on_cpu));
  library->impl("flash_attention_forward", under(c10::DispatchKey::Meta, &forward_of_shapes));
  library->impl("flash_attention_backward", under(c10::DispatchKey::CPU, &backward_on_cpu));
  library->impl("flash_attention_backward", under(c10::DispatchKey::Meta, &backward_of_shapes));
  return library;
}

const std::unique_ptr<torch::Library> operators = define_operators();

}  // namespace
