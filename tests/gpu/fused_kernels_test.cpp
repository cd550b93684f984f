// The kernels of `kernels: fused` where there is a GPU: each operator beside the CPU's, in both
// dtypes, where 16 bytes are taken at a time and where not.
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "support/gpu_ranks.h"

namespace ddprun::test {
namespace {

using Values = std::vector<c10::IValue>;

/// An operator `ddprun::name` and what it is given, on the CPU.
struct KernelCall {
  std::string name;
  Values arguments;
};

/// Copies of the tensors on that device, or without it, of their own.
Values on(const Values& values, c10::Device device) {
  Values copies;
  for (const c10::IValue& each : values) {
    if (each.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : each.toTensorVector()) list.push_back(tensor.to(device));
      copies.emplace_back(list);
    } else {
      copies.push_back(each.isTensor() ? each.toTensor().clone().to(device) : each);
    }
  }
  return copies;
}

/// The tensors after the call, on the CPU.
std::vector<at::Tensor> results(const KernelCall& call, c10::Device device) {
  Values stack = on(call.arguments, device);
  const Values given = stack;
  c10::Dispatcher::singleton()
      .findSchemaOrThrow(("ddprun::" + call.name).c_str(), "")
      .callBoxed(&stack);
  std::vector<at::Tensor> after;
  for (const c10::IValue& each : given) {
    if (each.isTensor()) after.push_back(each.toTensor().cpu());
  }
  return after;
}

constexpr std::int64_t kParts = 3;  // sums of a weight's gradient; no other tensor has as many rows

/// Of each, over rows of that width, a multiple of 4.
std::vector<KernelCall> calls(at::ScalarType dtype, std::int64_t rows, std::int64_t width) {
  const auto wide = [](at::IntArrayRef sizes) { return at::randn(sizes); };
  const auto values = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(dtype); };
  const at::Tensor x = wide({rows, width}), weight = wide({width});
  const at::Tensor inverse_rms = x.square().mean(1).add(1e-5).rsqrt();
  const c10::List<at::Tensor> forward({x, weight, inverse_rms});
  const at::Tensor ids = at::randint(0, 4, {rows}), table = wide({4, width});
  const at::Tensor targets = at::randint(0, width, {rows});
  targets[1] = -100;
  const at::Tensor losses = at::zeros({rows}, at::kDouble);
  const at::Tensor partial = wide({kParts, width}), dweight = wide({width});
  const std::int64_t head_dim = width / 2;
  const at::Tensor angles = wide({7, head_dim / 2});
  const at::Tensor rotations = at::stack({angles.cos(), angles.sin()}, 2);
  const at::Tensor a = values({rows, width}), b = values({5, width});
  std::vector<KernelCall> calls = {
      {"rms_norm", {x, weight, 1e-5, values({rows, width}), inverse_rms}},
      {"rms_norm_backward",
       {values({rows, width}), forward, c10::IValue(), x.clone(), partial, dweight}},
      {"rms_norm_backward", {values({rows, width}), forward, x, x.clone(), partial, c10::IValue()}},
      {"swiglu", {values({rows, 2 * width}), values({rows, width})}},
      {"swiglu_backward",
       {values({rows, width}), values({rows, 2 * width}), values({rows, width})}},
      {"add", {x, values({rows, width}), x.clone()}},
      {"embedding_backward", {x, ids, table}},
      {"product", {a, b, values({rows, 5}), false, true, false}},
      {"product", {b, b, wide({width, width}), true, false, true}}};
  for (const bool inverse : {false, true}) {
    calls.push_back(
        {"rope", {values({rows, 2 * head_dim}), rotations, std::int64_t{7}, head_dim, inverse}});
    calls.push_back({"cross_entropy", {values({rows, width}) * 4, targets, 0.5, inverse, losses}});
  }
  return calls;
}

class FusedKernels : public GpuTest {};

TEST_F(FusedKernels, ComputeWhatTheCpusDoAndTheSameBitsAgain) {
  on_gpu([](const at::TensorOptions& options) {
    at::manual_seed(1);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      // Packs and tails of warps and blocks; the last has no packs of bfloat16's.
      for (const auto& [rows, width] : {std::pair{11, 2080}, {29, 64}, {4, 4300}, {9, 44}}) {
        for (const KernelCall& call : calls(dtype, rows, width)) {
          SCOPED_TRACE(call.name + ", " + std::to_string(rows) + " rows of " +
                       std::to_string(width) + " " + at::toString(dtype));
          const auto expected = results(call, c10::kCPU);
          const auto found = results(call, options.device());
          const auto again = results(call, options.device());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_TRUE(at::equal(found[i], again[i])) << "tensor " << i;
            if (expected[i].size(0) == kParts) continue;  // cut as each device likes
            const double tolerance = expected[i].scalar_type() == at::kBFloat16 ? 1e-2 : 2e-5;
            const bool of_rows =
                expected[i].scalar_type() != at::kDouble;  // the CPU's are of parts
            EXPECT_TRUE(at::allclose(of_rows ? found[i] : found[i].sum(),
                                     of_rows ? expected[i] : expected[i].sum(), tolerance,
                                     tolerance))
                << "tensor " << i;
          }
        }
      }
    }
  });
}

TEST_F(FusedKernels, LossesAreOfTheirRows) {
  on_gpu([](const at::TensorOptions& options) {
    const at::Tensor logits = at::randn({6, 40}, at::kDouble), targets = at::randint(0, 40, {6});
    const KernelCall call = {
        "cross_entropy", {logits.to(at::kFloat), targets, 1.0, false, at::ones({6}, at::kDouble)}};
    const at::Tensor own = results(call, options.device()).back();
    const at::Tensor expected =
        1 - logits.log_softmax(1).gather(1, targets.unsqueeze(1)).squeeze(1);
    EXPECT_TRUE(at::allclose(own, expected, 1e-5, 1e-5)) << own << expected;
  });
}

}  // namespace
}  // namespace ddprun::test
