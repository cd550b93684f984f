// Which dtypes go together.
#include "ddprun/optim/buffer_dtypes.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <string>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

/// The rule that the dtypes break; empty: they fit each other.
std::string broken_rule(const BufferDtypes& dtypes) {
  if (dtypes.model != at::kFloat &&
      (dtypes.compute != dtypes.model || dtypes.reduce != dtypes.model)) {
    return "products and exchanged gradients in the dtype of tensors that are not float32";
  }
  if (dtypes.parameters != at::kFloat && dtypes.parameters != dtypes.model) {
    return "updated parameters in float32 or in the dtype of the tensors";
  }
  if (dtypes.moments != at::kFloat && dtypes.moments != dtypes.parameters) {
    return "moments in float32 or in the dtype of the updated parameters";
  }
  return {};
}

}  // namespace

void check_dtypes(const BufferDtypes& dtypes) {
  const std::string rule = broken_rule(dtypes);
  if (rule.empty()) return;
  throw ConfigError(
      {.what = "the precision's dtypes do not fit each other",
       .where = "precision",
       .got = fmt::format("tensors in {}, products in {}, gradients in {}, updated "
                          "parameters in {}, moments in {}",
                          at::toString(dtypes.model), at::toString(dtypes.compute),
                          at::toString(dtypes.reduce), at::toString(dtypes.parameters),
                          at::toString(dtypes.moments)),
       .expected = rule,
       .hint = "let the precision's dtypes() keep this rule"});
}

}  // namespace ddprun
