// The precision interface: which dtype each stage of a step computes in.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

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

  /// Once, before the parameters move into the flat buffers: may convert them in place (set_data).
  virtual void convert(const std::vector<NamedTensor>& parameters);

  /// The dtype of the matrix products and of what they read and write: float32 or bfloat16. The
  /// fused kernels go by it, and keep a copy of the parameters in it; PyTorch's own operators go by
  /// what forward_guard() switches on.
  virtual at::ScalarType compute_dtype() const;

  /// The dtype in which gradients travel: float32 or bfloat16. They are accumulated in float32.
  virtual at::ScalarType reduce_dtype() const;

  /// Held during the forward and the loss of each micro-batch; null means nothing to do.
  virtual std::unique_ptr<Guard> forward_guard();

  /// The loss that backward starts from: a scalar, by default `loss` itself.
  virtual at::Tensor scale_loss(const at::Tensor& loss);

  /// Undoes scale_loss on the synchronised gradients, in place. False: skip this step; must be the
  /// same on all ranks, which `group` lets them agree on.
  virtual bool unscale_gradients(const at::Tensor& gradients, ProcessGroup& group);

  /// What the matrix products multiply, for their share of the device's peak (MFU) in reports:
  /// float32, tf32, bfloat16, float16 or float8. Default: compute_dtype().
  virtual std::string matmul_dtype() const;
};

}  // namespace ddprun

#define DDPRUN_PRECISION(Class, name, summary, version) \
  DDPRUN_PLUGIN(Class, precision, name, summary, version)
