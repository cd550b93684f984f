// The oracle against autograd in float64, row by row.
#include "ddprun/proof/attention/attention_oracle.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

HeadInputs random_head(std::int64_t queries, std::int64_t keys, bool causal) {
  const auto draw = [](std::int64_t time) { return at::randn({time, 8}, at::kDouble); };
  return {draw(queries), draw(keys), draw(keys), draw(queries), causal};
}

/// Output, dq, dk and dv, whole.
std::vector<at::Tensor> by_autograd(const HeadInputs& head) {
  const auto leaf = [](const at::Tensor& x) { return x.detach().requires_grad_(true); };
  const at::Tensor q = leaf(head.q), k = leaf(head.k), v = leaf(head.v);
  at::Tensor scores = at::matmul(q, k.t()) / std::sqrt(8.0);
  if (head.causal) {
    const at::Tensor hidden = at::ones(scores.sizes(), at::kBool).triu(1);
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  const at::Tensor out = at::matmul(at::softmax(scores, -1), v);
  const auto gradients = torch::autograd::grad({out}, {q, k, v}, {head.dout});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

TEST(AttentionOracle, EveryRowIsThatOfAutograd) {
  for (const bool causal : {true, false}) {
    for (const auto& [queries, keys] : {std::pair{40, 40}, {17, 50}, {50, 17}, {1, 9}}) {
      SCOPED_TRACE(testing::Message() << queries << " x " << keys << " causal " << causal);
      const HeadInputs head = random_head(queries, keys, causal);
      const auto right = by_autograd(head);
      const OracleQueries of_queries = oracle_of_queries(head, at::arange(queries));
      const OracleKeys of_keys = oracle_of_keys(head, at::arange(keys));
      EXPECT_TRUE(at::allclose(of_queries.out.value, right[0]));
      EXPECT_TRUE(at::allclose(of_queries.dq.value, right[1]));
      EXPECT_TRUE(at::allclose(of_keys.dk.value, right[2]));
      EXPECT_TRUE(at::allclose(of_keys.dv.value, right[3]));
    }
  }
}

TEST(AttentionOracle, ChosenRowsAreThoseOfTheWhole) {
  const HeadInputs head = random_head(60, 60, true);
  const auto right = by_autograd(head);
  const at::Tensor index = at::tensor({0, 7, 59}, at::kLong);
  EXPECT_TRUE(
      at::allclose(oracle_of_queries(head, index).dq.value, right[1].index_select(0, index)));
  EXPECT_TRUE(at::allclose(oracle_of_keys(head, index).dk.value, right[2].index_select(0, index)));
}

// 2,100 x 2,100 scores are more than a chunk holds.
TEST(AttentionOracle, ChunksMakeNoDifference) {
  const HeadInputs head = random_head(2100, 2100, true);
  const auto right = by_autograd(head);
  const at::Tensor all = at::arange(2100);
  EXPECT_TRUE(at::allclose(oracle_of_queries(head, all).out.value, right[0]));
  EXPECT_TRUE(at::allclose(oracle_of_keys(head, all).dv.value, right[3]));
}

TEST(AttentionOracle, AUnitIsTheSizeOfTheTerms) {
  HeadInputs head{at::zeros({4, 2}, at::kDouble),
                  at::zeros({4, 2}, at::kDouble),
                  at::ones({4, 2}, at::kDouble),
                  {},
                  false};
  const OracleQueries rows = oracle_of_queries(head, at::arange(4));
  EXPECT_TRUE(at::allclose(rows.out.value, at::ones({4, 2}, at::kDouble)));
  EXPECT_TRUE(at::allclose(rows.out.unit, at::ones({4}, at::kDouble) / 2)) << "four terms of 1/4";
  EXPECT_FALSE(rows.dq.value.defined()) << "without dout";
}

}  // namespace
}  // namespace ddprun
