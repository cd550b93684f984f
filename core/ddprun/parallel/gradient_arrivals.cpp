// Refuses gradients that strategies would exchange wrongly or not at all.
#include "ddprun/parallel/gradient_arrivals.h"

#include <algorithm>
#include <string>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

constexpr const char* kBackward = "DataParallel::backward()";

[[noreturn]] void refuse_other_backward(const std::string& name) {
  throw Error(
      {.what = "a gradient came from a backward that DataParallel did not run",
       .where = kBackward,
       .got = "a gradient of " + name + ", which this rank would add to a mean, or not send",
       .expected = "gradients of what forward() returned",
       .hint = "what trains this model belongs into the loss that forward() is given; while "
               "another model's loss runs through it, requires_grad_(false); an earlier "
               "DataParallel of it must be gone"});
}

[[noreturn]] void refuse_second(const std::string& name) {
  throw Error(
      {.what = "a parameter got two gradients in one backward",
       .where = kBackward,
       .got = "a second one of " + name + ", where the first may have been sent",
       .expected = "one, the sum over all uses of the parameter",
       .hint = "a node that runs a backward of its own calls torch::autograd::grad() for it"});
}

[[noreturn]] void refuse_sparse(const std::string& name) {
  throw Error({.what = "a gradient is sparse, and ranks exchange dense ones",
               .where = kBackward,
               .got = "the gradient of " + name,
               .expected = "a dense tensor",
               .hint = "torch::nn::EmbeddingOptions(...).sparse(false), as it is by default"});
}

}  // namespace

void GradientArrivals::begin() {
  under_way_ = true;
  missing_ = buffers_.count();
  came_.assign(static_cast<std::size_t>(missing_), false);
}

bool GradientArrivals::note(int index, bool accumulates) {
  const std::string& name = buffers_.name(index);
  if (!under_way_ && !accumulates) refuse_other_backward(name);
  const at::Tensor& gradient = buffers_.parameter(index).grad();
  if (!gradient.defined()) return false;
  if (gradient.layout() != at::kStrided) refuse_sparse(name);
  if (!under_way_) return true;
  if (came_[index]) refuse_second(name);
  came_[index] = true;
  --missing_;
  return true;
}

bool GradientArrivals::complete(int first, int last) const {
  return std::find(came_.begin() + first, came_.begin() + last + 1, false) ==
         came_.begin() + last + 1;
}

void GradientArrivals::end() {
  under_way_ = false;
  if (complete()) return;
  std::vector<std::string> without;
  for (int index = buffers_.count() - 1; index >= 0; --index) {
    if (!came_[index]) without.push_back(buffers_.name(index));
  }
  throw Error({.what = "backward did not reach every parameter",
               .where = kBackward,
               .got = "no gradient of " + list_text(without),
               .expected = "one for each parameter that is trained",
               .hint = "freeze a parameter that the loss does not depend on: "
                       "requires_grad_(false), or let it add 0 * parameter.sum()"});
}

}  // namespace ddprun
