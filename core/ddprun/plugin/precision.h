// The precision interface: which dtype each stage of a step computes in.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "ddprun/optim/gradient_scale.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// Dtypes around a step. Every default does nothing: fp32. One object per rank, used on the
/// training thread.
class Precision : public Plugin {
 public:
  ~Precision() override;

  /// Whatever must be undone when the forward is over (its destructor does); see forward_guard().
  class Guard {
   public:
    virtual ~Guard();
  };

  /// Once, before the parameters move into the flat buffers: may convert them in place (set_data),
  /// and shows on which device the run is.
  virtual void convert(const std::vector<NamedTensor>& parameters);

  /// The dtype of the matrix products and of what they read and write. The fused kernels go by it,
  /// where it is float32 or bfloat16, and keep a copy of the parameters in it; PyTorch's own
  /// operators go by what forward_guard() switches on. Asked in the launching process too.
  virtual at::ScalarType compute_dtype() const;

  /// The dtype in which gradients travel: float32 or bfloat16.
  virtual at::ScalarType reduce_dtype() const;

  /// The dtype of the model's own tensors, and in which their gradients are accumulated: float32;
  /// or bfloat16, if the two above are. The optimizer updates float32 masters either way.
  virtual at::ScalarType parameter_dtype() const;

  /// Held during the forward and the loss of each micro-batch; null means nothing to do.
  virtual std::unique_ptr<Guard> forward_guard();

  /// x (..., in) weight^T (out, in), differentiable: the product of a linear layer, for models that
  /// let the precision compute it. Called within a forward_guard(). Default: at::linear.
  virtual at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);

  /// Whether the next two are to be called. Such a precision cannot run with optimizer.overlap,
  /// which updates parameters before all gradients are known. Asked in the launching process too.
  virtual bool scales_loss() const;

  /// The loss that backward starts from: a scalar, made from `loss` (micro-batch by micro-batch).
  virtual at::Tensor scale_loss(const at::Tensor& loss);

  /// After the gradients are synchronized: what undoes scale_loss, and whether gradients overflowed
  /// on this rank. Tensors on the gradients' device; do not wait for them. On return from the step
  /// `overflow` holds, in place, the maximum over all ranks, which all heed: one all-reduce of four
  /// bytes.
  virtual GradientScale gradient_scale(const at::Tensor& gradients);

  /// What the matrix products multiply, for their share of the device's peak (MFU) in reports:
  /// float32, tf32, bfloat16, float16 or float8. Default: compute_dtype().
  virtual std::string matmul_dtype() const;
};

/// The dtypes in which gradients may travel, as an option: `reduce_dtype: bfloat16`.
enum class ReduceDtype { float32, bfloat16 };
constexpr auto choice_names(ReduceDtype) { return std::array{"float32", "bfloat16"}; }
constexpr at::ScalarType dtype_of(ReduceDtype dtype) {
  return dtype == ReduceDtype::bfloat16 ? at::kBFloat16 : at::kFloat;
}

/// For unsupported(): a refusal if the setup is of GPUs below compute capability `least` (80 is
/// 8.0), which `what` needs ("TF32 products").
std::optional<Refusal> below_capability(const Setup& setup, int least, const std::string& what);

}  // namespace ddprun

#define DDPRUN_PRECISION(Class, name, summary, version) \
  DDPRUN_PLUGIN(Class, precision, name, summary, version)
