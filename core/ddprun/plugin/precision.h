// The precision interface: which dtype each stage of a step computes in.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/gradient_scale.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// The dtypes of the stages of a step. The defaults are those of fp32.
struct PrecisionDtypes {
  /// What each stage reads and writes; BufferDtypes says what goes together.
  BufferDtypes buffers = {};
  /// The format of the factors in matrix products: float32, tf32, bfloat16, float16 or float8.
  /// Empty: that of `buffers.compute`.
  std::string products = {};

  /// `products`, or the name of what it stands for if it is empty. Reports divide by the device's
  /// peak for it (MFU).
  std::string product_format() const;
};

/// Scales the loss up, so that small gradients are not lost, and finds out whether they overflowed.
/// A precision that has one cannot run with optimizer.overlap, which updates parameters before all
/// gradients are known. Its tensors are made from Precision::convert() on, not before.
class LossScaler {
 public:
  virtual ~LossScaler();

  /// The scaled loss, a scalar, from which backward starts. Called for each micro-batch.
  virtual at::Tensor scale(const at::Tensor& loss) = 0;

  /// Called when the gradients are synchronized, with those that this rank owns. Returns the factor
  /// that undoes scale(), and whether they overflowed. Both are tensors on the gradients' device;
  /// do not wait for their values. The core all-reduces `overflow` in place (four bytes) to the
  /// maximum over the ranks, so that all ranks skip the same steps.
  virtual GradientScale gradient_scale(const std::vector<at::Tensor>& gradients) = 0;
};

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

  /// Called once, before the parameters move into the flat buffers: those that are trained, then
  /// those that are frozen. May convert them in place (set_data). Their device is the run's device.
  virtual void convert(const std::vector<NamedTensor>& parameters);

  /// The same at each call. The fused kernels compute in `buffers.compute`. PyTorch's own operators
  /// do not know it: they compute as forward_guard() makes them. Also called in the launching
  /// process.
  virtual PrecisionDtypes dtypes() const;

  /// The core holds the guard during the forward and the loss of each micro-batch, and in backward
  /// while it computes blocks again (model.recompute). Null: there is nothing to switch on.
  virtual std::unique_ptr<Guard> forward_guard();

  /// x (..., in), weight (out, in): x weight^T (..., out), differentiable.
  using Linear = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;
  /// How this precision computes the products of linear layers, for models that ask it
  /// (DataParallel::linear). The function is called within a forward_guard(). Empty: by at::linear.
  virtual Linear linear();

  /// What scales the loss; it belongs to this object. Null: the loss is not scaled. Also called in
  /// the launching process and before convert(), to learn whether there is one.
  virtual LossScaler* loss_scaler();
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
