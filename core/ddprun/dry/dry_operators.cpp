// Kernels that make tensors of the right sizes.
#include "ddprun/dry/dry_device.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <utility>

namespace ddprun {

namespace {

at::Tensor index_select(const at::Tensor& self, std::int64_t dim, const at::Tensor& index) {
  std::vector<std::int64_t> sizes = self.sizes().vec();
  sizes[dim] = index.numel();
  return at::empty(sizes, self.options());
}

at::Tensor embedding_dense_backward(const at::Tensor& gradient, const at::Tensor& /*indices*/,
                                    c10::SymInt rows, c10::SymInt /*padding*/, bool /*by_count*/) {
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

at::Tensor& of_one(const at::Tensor& self, at::Tensor& out) {
  out.resize_(self.sizes());
  return out;
}

/// Of two of one shape.
at::Tensor& of_two(const at::Tensor& self, const at::Tensor& /*other*/, at::Tensor& out) {
  return of_one(self, out);
}

at::Tensor& amp_update_scale(at::Tensor& self, at::Tensor& /*growth*/, const at::Tensor& /*inf*/,
                             double, double, std::int64_t) {
  return self;
}

/// c10d's operator on a backend that takes tensors of device meta. Boxed, since versions of PyTorch
/// differ in what follows the group: tensors, group, ... -> tensors, work.
void all_reduce(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  std::vector<at::Tensor> tensors = torch::jit::peek(*stack, 0, count).toTensorVector();
  const auto group = torch::jit::peek(*stack, 1, count).toCustomClass<c10d::ProcessGroup>();
  const auto work = group->getBackend(c10::kMeta)->allreduce(tensors);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, tensors, c10::IValue(work));
}

}  // namespace

std::shared_ptr<void> dry_operators() {
  const auto of_meta = [](const char* name) {
    return torch::Library(torch::Library::IMPL, name, c10::DispatchKey::Meta, __FILE__, __LINE__);
  };
  auto libraries =
      std::make_shared<std::pair<torch::Library, torch::Library>>(of_meta("aten"), of_meta("c10d"));
  libraries->first.impl("index_select", index_select);
  libraries->first.impl("embedding_dense_backward", embedding_dense_backward);
  libraries->first.impl("abs.out", of_one);
  libraries->first.impl("logical_not.out", of_one);
  libraries->first.impl("logical_or.out", of_two);
  libraries->first.impl("_amp_update_scale_", amp_update_scale);
  libraries->second.impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&all_reduce>());
  return libraries;
}

}  // namespace ddprun
