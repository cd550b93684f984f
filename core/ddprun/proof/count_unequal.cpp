// Without a tolerance nothing is widened: what is compared may be a whole model.
#include "ddprun/proof/count_unequal.h"

#include <ATen/TensorOperators.h>

namespace ddprun {

std::int64_t count_unequal(const at::Tensor& got, const at::Tensor& expected, double tolerance) {
  const at::Tensor numbers = expected.eq(expected).logical_or(got.eq(got));
  at::Tensor unequal = expected.ne(got).logical_and(numbers);
  if (tolerance > 0) {
    const at::Tensor wide = expected.to(at::kDouble);
    const at::Tensor near = (got.to(at::kDouble) - wide).abs().le(wide.abs().max() * tolerance);
    unequal = unequal.logical_and(near.logical_not());
  }
  return unequal.count_nonzero().item<std::int64_t>();
}

}  // namespace ddprun
