// Flat buffers: the user's tensors become aligned views, and backward keeps adding into them.
#include "ddprun/optim/flat_buffers.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/optimizer.h"
#include "support/matchers.h"
#include "support/without_masters.h"

namespace ddprun {
namespace {

at::Tensor leaf(at::IntArrayRef sizes, double first = 1.0) {
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  return at::arange(first, first + static_cast<double>(elements), at::kFloat)
      .reshape(sizes)
      .clone()
      .requires_grad_();
}

std::vector<NamedTensor> three() {
  return {{"a", leaf({3, 5})}, {"b", leaf({2}, 100)}, {"c", leaf({4, 4}, 200)}};
}

bool lies_in(const at::Tensor& view, const at::Tensor& flat, std::int64_t offset) {
  return view.is_alias_of(flat) &&
         view.const_data_ptr<float>() == flat.const_data_ptr<float>() + offset;
}

TEST(FlatBuffers, StoresInReverseOrderOnCacheLines) {
  const FlatBuffers buffers(three());
  ASSERT_EQ(buffers.count(), 3);
  EXPECT_EQ(buffers.name(0), "c");
  EXPECT_EQ(buffers.name(2), "a");
  EXPECT_EQ(buffers.range(0), (Range{0, 16}));
  EXPECT_EQ(buffers.range(1), (Range{16, 18}));
  EXPECT_EQ(buffers.range(2), (Range{32, 47}));
  EXPECT_EQ(buffers.range(0, 1), (Range{0, 18}));
  EXPECT_EQ(buffers.range(1, 2), (Range{16, 47}));
  EXPECT_EQ(buffers.all(), (Range{0, 48}));
  EXPECT_EQ(buffers.parameter_count(), 15 + 2 + 16);
  EXPECT_EQ(buffers.gradient_bytes(buffers.range(1, 2)), 31 * 4);
  for (int i = 0; i < buffers.count(); ++i) {
    for (const at::Tensor& view :
         {buffers.parameters(buffers.range(i)), buffers.gradients(buffers.range(i))}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.const_data_ptr()) % 64, 0u) << i;
    }
  }
}

TEST(FlatBuffers, UsersTensorsBecomeViewsAndKeepTheirValues) {
  const std::vector<NamedTensor> parameters = three();
  std::vector<at::Tensor> before;
  for (const NamedTensor& parameter : parameters)
    before.push_back(parameter.tensor.detach().clone());
  FlatBuffers buffers(parameters);
  const at::Tensor flat = buffers.parameters(buffers.all());
  for (int i = 0; i < 3; ++i) {
    const at::Tensor& user = parameters[i].tensor;
    const Range range = buffers.range(2 - i);
    EXPECT_TRUE(user.is_same(buffers.parameter(2 - i)));
    EXPECT_TRUE(user.is_leaf() && user.requires_grad());
    EXPECT_TRUE(at::equal(user, before[i]));
    EXPECT_TRUE(lies_in(user, flat, range.begin));
    EXPECT_FALSE(user.grad().defined());
    EXPECT_FALSE(buffers.adopt_gradient(2 - i)) << "there is none";
    EXPECT_TRUE(at::equal(buffers.parameters(range), before[i].flatten()));
  }
  EXPECT_EQ(
      flat.sum().item<float>(),
      before[0].sum().item<float>() + before[1].sum().item<float>() + before[2].sum().item<float>())
      << "padding must be zero";
}

TEST(FlatBuffers, GradientsMoveIntoTheBufferAndAddUpThere) {
  const std::vector<NamedTensor> parameters = three();
  FlatBuffers buffers(parameters);
  const at::Tensor x = at::full({2, 3}, 2.0);
  // d/da sum(x a) = x^T 1 = 4; b and c enter as sum(b^2) and sum(3 c).
  const auto loss = [&] {
    return at::mm(x, parameters[0].tensor).sum() + parameters[1].tensor.pow(2).sum() +
           (parameters[2].tensor * 3).sum();
  };
  for (int times = 1; times <= 2; ++times) {
    loss().backward();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(buffers.adopt_gradient(i));
    EXPECT_TRUE(at::equal(buffers.gradients(buffers.range(2)), at::full({15}, 4.0 * times)));
    EXPECT_TRUE(at::equal(buffers.gradients(buffers.range(1)),
                          parameters[1].tensor.detach() * (2.0 * times)));
    EXPECT_TRUE(at::equal(buffers.gradients(buffers.range(0)), at::full({16}, 3.0 * times)));
    for (int i = 0; i < 3; ++i) {
      const at::Tensor& user = buffers.parameter(i);
      EXPECT_TRUE(lies_in(user.grad(), buffers.gradients(buffers.all()), buffers.range(i).begin));
      EXPECT_EQ(user.grad().strides(), user.strides());
    }
  }
  EXPECT_EQ(buffers.gradients({18, 32}).abs().sum().item<float>(), 0.0f);
  buffers.zero_grad();
  for (const NamedTensor& parameter : parameters) EXPECT_FALSE(parameter.tensor.grad().defined());
}

TEST(FlatBuffers, TransposedParameterKeepsItsStrides) {
  const at::Tensor values = at::arange(6, at::kFloat).reshape({2, 3});
  const at::Tensor transposed = values.clone().t().detach().requires_grad_();
  FlatBuffers buffers({{"t", transposed}});
  EXPECT_EQ(transposed.strides(), (at::IntArrayRef{1, 3}));
  EXPECT_TRUE(at::equal(transposed.detach(), values.t()));
  (transposed * at::arange(6, at::kFloat).reshape({3, 2})).sum().backward();
  EXPECT_TRUE(buffers.adopt_gradient(0));
  EXPECT_EQ(transposed.grad().strides(), (at::IntArrayRef{1, 3}));
  EXPECT_TRUE(at::equal(transposed.grad(), at::arange(6, at::kFloat).reshape({3, 2})));
}

TEST(FlatBuffers, ParameterWithHolesBecomesContiguous) {
  const at::Tensor values = at::arange(8, at::kFloat).reshape({2, 4});
  const at::Tensor part = values.clone().narrow(1, 1, 2).detach().requires_grad_();
  FlatBuffers buffers({{"part", part}});
  EXPECT_TRUE(part.is_contiguous());
  EXPECT_TRUE(at::equal(part.detach(), values.narrow(1, 1, 2)));
}

TEST(FlatBuffers, ScalarAndEmptyParameters) {
  const at::Tensor scalar = at::full({}, 3.0).requires_grad_();
  const at::Tensor empty = at::empty({0, 4}).requires_grad_();
  const FlatBuffers buffers({{"empty", empty}, {"scalar", scalar}});
  EXPECT_EQ(buffers.parameter_count(), 1);
  EXPECT_EQ(scalar.item<float>(), 3.0f);
  EXPECT_EQ(buffers.range(1).size(), 0);
}

TEST(FlatBuffers, GradientsTravelInBfloat16) {
  const std::vector<NamedTensor> parameters = three();
  FlatBuffers buffers(parameters, {.reduce = at::kBFloat16});
  at::Tensor b = parameters[1].tensor;
  b.mutable_grad() = at::full({2}, 1.0 + 0x1p-10);  // 1 in bfloat16
  EXPECT_TRUE(buffers.adopt_gradient(1));
  b.grad().add_(0x1p-8 - 0x1p-10);  // the sum is kept in float32
  buffers.finish_gradient(1);
  const at::Tensor travelling = buffers.gradients(buffers.range(1));
  EXPECT_EQ(travelling.scalar_type(), at::kBFloat16);
  EXPECT_EQ(buffers.gradient_bytes(buffers.range(1)), 4);
  EXPECT_TRUE(at::equal(b.grad(), at::full({2}, 1.0 + 0x1p-8)));
  EXPECT_TRUE(at::equal(travelling, b.grad().to(at::kBFloat16)));
}

TEST(FlatBuffers, KeepABfloat16CopyOfTheParametersForFusedKernels) {
  const BufferDtypes dtypes{.compute = at::kBFloat16};
  const FlatBuffers for_operators(three(), dtypes);
  EXPECT_FALSE(for_operators.compute_copy(for_operators.all()).defined());
  const std::vector<NamedTensor> parameters = three();
  FlatBuffers buffers(parameters, dtypes, allocate_private, KernelSet::fused);
  const auto slots = buffers.slots();
  const auto equal = [&] {
    return at::equal(buffers.compute_copy(buffers.all()),
                     buffers.parameters(buffers.all()).to(at::kBFloat16));
  };
  EXPECT_TRUE(equal());
  buffers.parameters(buffers.range(1)).fill_(7.0);
  EXPECT_FALSE(equal());
  buffers.parameters_changed(buffers.range(1));
  EXPECT_TRUE(equal());
  ASSERT_EQ(slots.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(slots[i].parameter.is_same(parameters[i].tensor));
    EXPECT_TRUE(
        lies_in(slots[i].gradient, buffers.gradients(buffers.all()), buffers.range(2 - i).begin));
    EXPECT_TRUE(at::equal(slots[i].weight(), parameters[i].tensor.to(at::kBFloat16)));
  }
}

TEST(FlatBuffers, CopyNothingThatNoProductReads) {
  std::vector<NamedTensor> parameters = three();
  parameters[0].unit = "embedding";
  parameters[0].read_in_float32 = true;
  FlatBuffers buffers(parameters, {.compute = at::kBFloat16}, allocate_private, KernelSet::fused);
  const Range copied = buffers.range(0, 1);
  EXPECT_EQ(buffers.copied(), (Range{0, buffers.range(2).begin}));
  EXPECT_EQ(buffers.allocated_bytes(), 48 * (4 + 4) + 32 * 2) << "parameters, gradients, a copy";
  EXPECT_FALSE(buffers.compute_copy(buffers.range(2)).defined());
  EXPECT_FALSE(buffers.slots()[0].compute.defined());
  EXPECT_THROW(buffers.compute_copy(buffers.all()), Error) << "it would be renewed in part";
  OptimizerConfig config;
  config.lr = 1;
  const auto optimizer = make_optimizer(config, buffers);
  buffers.gradients(buffers.all()).fill_(1);
  optimizer->begin_step(1);
  optimizer->update_all();
  EXPECT_TRUE(
      at::equal(buffers.compute_copy(copied), buffers.parameters(copied).to(at::kBFloat16)));
  buffers.parameters(buffers.all()).fill_(7);
  buffers.parameters_changed(buffers.all());
  EXPECT_TRUE(at::equal(buffers.compute_copy(copied), at::full({18}, 7, at::kBFloat16)));
}

std::string error_of(const std::vector<NamedTensor>& parameters) {
  return test::error_of<ConfigError>([&] { FlatBuffers buffers(parameters); });
}

constexpr BufferDtypes kAllBfloat16{
    .compute = at::kBFloat16, .reduce = at::kBFloat16, .model = at::kBFloat16};

TEST(FlatBuffers, AModelInBfloat16HasFloat32Masters) {
  const float between = 1.0F + 1.0F / 1024;  // bfloat16 has no such number
  const std::vector<NamedTensor> parameters = three();
  {
    const c10::NoGradGuard no_grad;
    parameters[0].tensor.fill_(between);
  }
  FlatBuffers buffers(parameters, kAllBfloat16);
  const at::Tensor& user = parameters[0].tensor;
  EXPECT_EQ(user.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(user.is_leaf() && user.requires_grad());
  EXPECT_TRUE(user.is_alias_of(buffers.compute_copy(buffers.all())));
  EXPECT_TRUE(at::equal(user, at::ones({3, 5}, at::kBFloat16)));
  const at::Tensor master = buffers.parameters(buffers.range(2));
  EXPECT_TRUE(at::equal(master, at::full({15}, between))) << "not rounded";

  master.fill_(3.0);
  EXPECT_EQ(user[0][0].item<float>(), 1.0F);
  buffers.parameters_changed(buffers.range(2));
  EXPECT_EQ(user[0][0].item<float>(), 3.0F);
}

TEST(FlatBuffers, GradientsOfAModelInBfloat16AddUpWhereTheyTravel) {
  const std::vector<NamedTensor> parameters = three();
  FlatBuffers buffers(parameters, kAllBfloat16);
  const at::Tensor& user = parameters[0].tensor;
  for (int micro_batch = 1; micro_batch <= 2; ++micro_batch) {
    (user * 1.5).sum().backward();
    EXPECT_TRUE(buffers.adopt_gradient(2));
    EXPECT_TRUE(user.grad().is_alias_of(buffers.gradients(buffers.all())));
    EXPECT_TRUE(at::equal(buffers.gradients(buffers.range(2)),
                          at::full({15}, 1.5 * micro_batch, at::kBFloat16)));
  }
  EXPECT_EQ(buffers.gradient_bytes(buffers.range(2)), 15 * 2);
  buffers.zero_grad();
  EXPECT_FALSE(user.grad().defined());
}

TEST(FlatBuffers, WithoutMastersTheModelReadsTheParametersThemselves) {
  const std::vector<NamedTensor> parameters = three();
  {
    const c10::NoGradGuard no_grad;
    parameters[0].tensor.fill_(1.0F + 1.0F / 1024);
  }
  FlatBuffers buffers(parameters, test::without_masters());
  const at::Tensor& user = parameters[0].tensor;
  const at::Tensor kept = buffers.parameters(buffers.range(2));
  EXPECT_EQ(kept.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(user.is_alias_of(kept));
  EXPECT_TRUE(user.is_leaf() && user.requires_grad());
  EXPECT_FALSE(buffers.compute_copy(buffers.all()).defined());
  EXPECT_TRUE(at::equal(user, at::ones({3, 5}, at::kBFloat16))) << "rounded";
  (user * 1.5).sum().backward();
  EXPECT_TRUE(buffers.adopt_gradient(2));
  EXPECT_TRUE(user.grad().is_alias_of(buffers.gradients(buffers.all())));
  EXPECT_EQ(buffers.dtypes().moments, at::kBFloat16);
}

TEST(FlatBuffers, WithoutGradientsThereAreNoBuffersOfThem) {
  int allocated = 0;
  const auto parameters = three();
  FlatBuffers buffers(ParameterLayout(parameters, {}, KernelSet::reference, 1), parameters,
                      {.gradients = Placement::none},
                      [&](std::int64_t elements, const at::TensorOptions& options) {
                        ++allocated;
                        return at::zeros({elements}, options);
                      });
  EXPECT_EQ(allocated, 1) << "the parameters";
  EXPECT_ANY_THROW(buffers.gradients(buffers.all()));
  for (const ParameterSlot& slot : buffers.slots()) EXPECT_FALSE(slot.gradient.defined());
}

TEST(FlatBuffers, DtypesThatDoNotFitAreRefused) {
  EXPECT_THROW(FlatBuffers(three(), {.parameters = at::kBFloat16}), ConfigError);
  EXPECT_THROW(FlatBuffers(three(), {.moments = at::kBFloat16}), ConfigError);
  EXPECT_THROW(FlatBuffers(three(), {.model = at::kBFloat16}), ConfigError);
  FlatBuffers buffers(three(), kAllBfloat16);
  EXPECT_THROW(buffers.slots(), ConfigError) << "fused kernels write float32 gradients";
  FlatBuffers half(three(), {.compute = at::kHalf});
  EXPECT_THROW(half.slots(), ConfigError) << "nor do they compute in float16";
}

TEST(FlatBuffers, RefusesWhatItCannotHold) {
  using testing::AllOf;
  using testing::HasSubstr;
  const at::Tensor good = leaf({2});
  EXPECT_THAT(error_of({}), HasSubstr("no parameters"));
  EXPECT_THAT(error_of({{"w", at::Tensor()}}), HasSubstr("\"w\" is undefined"));
  EXPECT_THAT(error_of({{"g", good}, {"w", at::zeros({2}, at::kDouble).requires_grad_()}}),
              AllOf(HasSubstr("\"w\""), HasSubstr("float32")));
  EXPECT_THAT(error_of({{"w", good * 2}}), AllOf(HasSubstr("\"w\""), HasSubstr("not a leaf")));
  EXPECT_THAT(error_of({{"w", at::zeros({2})}}),
              AllOf(HasSubstr("\"w\""), HasSubstr("does not require a gradient")));
  EXPECT_THAT(error_of({{"g", good}, {"w", good}}),
              AllOf(HasSubstr("\"w\" appears twice"), HasSubstr("memory")));
  EXPECT_THAT(error_of({{"g", good}, {"w", good.detach().requires_grad_()}}),
              HasSubstr("\"w\" appears twice"));
  EXPECT_THAT(error_of({{"g", good}, {"g", leaf({2})}}),
              AllOf(HasSubstr("\"g\" appears twice"), HasSubstr("its name")));
  EXPECT_EQ(error_of({{"g", good}}), "no error") << "a refused list must leave tensors usable";
}

}  // namespace
}  // namespace ddprun
