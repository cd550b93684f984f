// The precision interface: which dtype each stage of a step computes in.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ddprun/comm/process_group.h"
#include "ddprun/model/named_tensor.h"
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

  /// The loss that backward starts from: a scalar, by default `loss` itself.
  virtual at::Tensor scale_loss(const at::Tensor& loss);

  /// Undoes scale_loss on the synchronised gradients, in place. False: skip this step; must be the
  /// same on all ranks, which `group` lets them agree on.
  virtual bool unscale_gradients(const at::Tensor& gradients, ProcessGroup& group);
};

/// For unsupported(): a sentence if the setup is of GPUs below compute capability `least` (80 is
/// 8.0), which `what` needs ("TF32 products"); else empty.
std::string below_capability(const Setup& setup, int least, const std::string& what);

}  // namespace ddprun

#define DDPRUN_PRECISION(Class, name, summary, version) \
  DDPRUN_PLUGIN(Class, precision, name, summary, version)
