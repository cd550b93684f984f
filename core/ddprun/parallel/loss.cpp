// Refuses what is no loss, and a second backward.
#include "ddprun/parallel/loss.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

/// What keeps backward from starting at it, in words; empty: nothing.
std::string no_loss(const at::Tensor& value) {
  if (!value.defined()) return "an undefined tensor";
  if (value.numel() != 1) return fmt::format("a tensor of {} elements", value.numel());
  return value.requires_grad() ? "" : "a scalar to which no parameter leads";
}

}  // namespace

void check_loss(const at::Tensor& value) {
  const std::string got = no_loss(value);
  if (got.empty()) return;
  throw Error({.what = "what forward() was given returned no loss",
               .where = "DataParallel::forward()",
               .got = got,
               .expected = "the mean loss of the micro-batch, a scalar made from the parameters",
               .hint = "loss.mean(); and no torch::NoGradGuard around it"});
}

void backward_from(const at::Tensor& loss) {
  try {
    loss.backward();
  } catch (const c10::Error& error) {
    if (std::string_view(error.msg()).find("a second time") == std::string_view::npos) throw;
    throw Error({.what = "backward ran twice for one loss",
                 .where = "DataParallel::backward()",
                 .got = "a loss whose backward was done",
                 .expected = "a forward() for each backward()",
                 .hint = "call forward() again"});
  }
}

}  // namespace ddprun
