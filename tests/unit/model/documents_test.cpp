// Documents in one sample against each of them alone: RoPE knows distances, so where in the sample
// a document lies makes no difference.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "ddprun/base/choice.h"
#include "ddprun/model/transformer.h"
#include "support/plugin_library.h"

namespace ddprun::model_documents_test {
namespace {

constexpr std::int64_t kVocab = 97, kTime = 40;
constexpr std::int64_t kLengths[] = {7, 1, 20, 12};  // of the documents of a sample

struct Way {
  KernelSet kernels;
  const char* attention;
  RecomputeForm recompute = RecomputeForm::none;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << name_of(way.kernels) << " " << way.attention << " " << name_of(way.recompute);
}

class ModelOfDocuments : public ::testing::TestWithParam<Way> {
 protected:
  ModelOfDocuments() {
    std::int32_t begin = 0;
    for (const std::int64_t length : kLengths) {
      documents_.first_keys.narrow(1, begin, length).fill_(begin);
      begin += static_cast<std::int32_t>(length);
      targets_.select(1, begin - 1).fill_(-100);
    }
    documents_.divisor = 50;
  }

  at::Tensor gradients() const {
    std::vector<at::Tensor> all;
    for (const NamedTensor& each : model_.parameters()) {
      all.push_back(each.tensor.grad().flatten().clone());
      each.tensor.mutable_grad().reset();
    }
    return at::cat(all);
  }

  std::shared_ptr<Attention> attention_ =
      test::load_plugin<Attention>("attention", GetParam().attention);
  const Transformer model_{{.preset = "",
                            .vocab_size = kVocab,
                            .context_length = kTime,
                            .d_model = 64,
                            .d_ff = 100,
                            .layers = 2,
                            .heads = 4,
                            .kernels = GetParam().kernels,
                            .recompute = {.form = GetParam().recompute}},
                           *attention_,
                           3};
  const at::Tensor ids_ = at::randint(kVocab, {2, kTime}, at::kLong);
  const at::Tensor targets_ = at::randint(kVocab, {2, kTime}, at::kLong);
  Documents documents_ = {.first_keys = at::empty({2, kTime}, at::kInt)};
};

TEST_P(ModelOfDocuments, HasTheLossAndGradientsOfEachAlone) {
  double expected = 0;
  std::int64_t begin = 0;
  for (const std::int64_t length : kLengths) {
    if (const std::int64_t counted = length - 1; counted > 0) {
      const at::Tensor loss = model_.loss(ids_.narrow(1, begin, counted).contiguous(),
                                          targets_.narrow(1, begin, counted).contiguous());
      const double share = static_cast<double>(2 * counted) / documents_.divisor;
      (loss * share).backward();
      expected += loss.item<double>() * share;
    }
    begin += length;
  }
  const at::Tensor expected_gradients = gradients();
  const at::Tensor loss = model_.loss(ids_, targets_, documents_);
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), expected, 1e-5);
  const at::Tensor got = gradients();
  EXPECT_LT((got - expected_gradients).norm().item<double>(),
            1e-5 * expected_gradients.norm().item<double>());
}

TEST_P(ModelOfDocuments, WithoutTargetsHasNoLoss) {
  const at::Tensor loss = model_.loss(ids_, at::full_like(targets_, -100), documents_);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0.0);
  EXPECT_EQ(gradients().norm().item<double>(), 0.0);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ModelOfDocuments,
    ::testing::Values(Way{KernelSet::reference, "eager"}, Way{KernelSet::reference, "sdpa"},
                      Way{KernelSet::reference, "flash"}, Way{KernelSet::fused, "eager"},
                      Way{KernelSet::fused, "flash"},
                      Way{KernelSet::reference, "eager", RecomputeForm::recursive},
                      Way{KernelSet::fused, "flash", RecomputeForm::every_block}));

}  // namespace
}  // namespace ddprun::model_documents_test
