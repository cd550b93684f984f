// Without a tolerance nothing is widened: what is compared may be a whole model.
#include "ddprun/proof/drawn_run.h"

#include <ATen/TensorOperators.h>

#include <cstring>

namespace ddprun {

namespace {

/// Whether both hold the same bytes, so that nothing is left to count: what a run that is right
/// pays.
bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() && b.is_cpu() && a.scalar_type() == b.scalar_type() && a.is_contiguous() &&
         b.is_contiguous() && a.nbytes() == b.nbytes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace

std::int64_t count_unequal(const at::Tensor& got, const at::Tensor& expected, double tolerance) {
  if (same_bytes(got, expected)) return 0;
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
