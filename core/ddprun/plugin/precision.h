// The precision interface: which dtype each stage of a step computes in.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/optim/gradient_scale.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// Decides in which dtype each stage of a step computes. The defaults are those of fp32: they
/// change nothing. One object per rank, used on the training thread.
class Precision : public Plugin {
 public:
  ~Precision() override;

  /// Switches something on for the forward; its destructor switches it off. See forward_guard().
  class Guard {
   public:
    virtual ~Guard();
  };

  /// Called once, before the parameters move into the flat buffers. May convert them in place
  /// (set_data). Their device is the run's device.
  virtual void convert(const std::vector<NamedTensor>& parameters);

  /// The dtype of the matrix products and of what they read and write. The fused kernels compute in
  /// it, if it is float32 or bfloat16, and keep a copy of the parameters in it. PyTorch's own
  /// operators do not know it: they compute as forward_guard() makes them. Also called in the
  /// launching process.
  virtual at::ScalarType compute_dtype() const;

  /// The dtype in which ranks exchange gradients: float32 or bfloat16.
  virtual at::ScalarType reduce_dtype() const;

  /// The dtype of the model's own tensors, in which their gradients are accumulated too. It is
  /// float32, or it is bfloat16 together with the two dtypes above.
  virtual at::ScalarType parameter_dtype() const;

  /// The dtype of the parameters that the optimizer updates. With float32 (the default) and a model
  /// in bfloat16 they are masters, of which the model's tensors are a rounded copy. bfloat16 needs
  /// parameter_dtype() bfloat16: the model's tensors themselves are updated.
  virtual at::ScalarType updated_dtype() const;

  /// The dtype in which the optimizer keeps its moments: float32, or bfloat16 together with
  /// updated_dtype(). It computes in float32 in any case.
  virtual at::ScalarType moments_dtype() const;

  /// The core holds the guard during the forward and the loss of each micro-batch, and in backward
  /// while it computes blocks again (model.recompute). Null: there is nothing to switch on.
  virtual std::unique_ptr<Guard> forward_guard();

  /// x (..., in), weight (out, in): x weight^T (..., out), differentiable.
  using Linear = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;
  /// How this precision computes the products of linear layers, for models that ask it
  /// (DataParallel::linear). The function is called within a forward_guard(). Empty: by at::linear.
  virtual Linear linear();

  /// True if this precision scales the loss: only then are the next two called. It cannot run with
  /// optimizer.overlap, which updates parameters before all gradients are known. Also called in the
  /// launching process.
  virtual bool scales_loss() const;

  /// The scaled loss, a scalar, from which backward starts. Called for each micro-batch.
  virtual at::Tensor scale_loss(const at::Tensor& loss);

  /// Called when the gradients are synchronized, with those that this rank owns. Returns the factor
  /// that undoes scale_loss(), and whether they overflowed. Both are tensors on the gradients'
  /// device; do not wait for their values. The core all-reduces `overflow` in place (four bytes) to
  /// the maximum over the ranks, so that all ranks skip the same steps.
  virtual GradientScale gradient_scale(const std::vector<at::Tensor>& gradients);

  /// The format of the factors in matrix products: float32, tf32, bfloat16, float16 or float8.
  /// Reports divide by the device's peak for it (MFU). Default: compute_dtype().
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
std::optional<Refusal> below_capability(const RunDescription& run, int least,
                                        const std::string& what);
/// For unsupported(): a refusal, for this `reason`, if the model's kernels are the fused ones.
std::optional<Refusal> needs_reference_kernels(const RunDescription& run,
                                               const std::string& reason);

}  // namespace ddprun

#define DDPRUN_PRECISION(Class, name, summary, version) \
  DDPRUN_PLUGIN(Class, precision, name, summary, version)
