// A precision that is its dtypes, and nothing else.
#pragma once

#include "ddprun/plugin/precision.h"

namespace ddprun::test {

class PrecisionOf final : public Precision {
 public:
  explicit PrecisionOf(const BufferDtypes& buffers) : buffers_(buffers) {}
  PrecisionDtypes dtypes() const override { return {.buffers = buffers_}; }

 private:
  BufferDtypes buffers_;
};

/// Tensors of a model in bfloat16, beside which the optimizer has masters.
inline PrecisionOf in_bfloat16() {
  return PrecisionOf({.compute = at::kBFloat16, .reduce = at::kBFloat16, .model = at::kBFloat16});
}

}  // namespace ddprun::test
