// FlashAttention-2 of bfloat16, multiplied as float32 and as pairs, beside that of float32.

#include "ddprun/kernels/attention/flash_attention.h"
#include "support/kernel_arrays.h"

namespace ddprun {
namespace {

using kernels::AttentionShape;
using kernels::bf16;
using kernels::HeadsOf;
using test::Array;
using test::expect_close;
using test::noise;

/// Rows of the heads of one sample: side by side in time, as a projection leaves them, or each head
/// by itself.
template <class T>
HeadsOf<T> heads_of(T* data, const AttentionShape& shape, bool side_by_side) {
  const std::int64_t row = side_by_side ? shape.heads * shape.width : shape.width;
  return {data, 0, side_by_side ? shape.width : shape.queries * shape.width, row};
}

/// What forward and backward give, S being stored and T multiplied. Inputs and the output that
/// backward reads are those of bfloat16 in any case.
template <class S, class T>
std::vector<at::Tensor> results(const AttentionShape& shape, bool side_by_side,
                                const at::Tensor& out_of_bf16) {
  const std::int64_t rows = shape.heads * shape.queries;
  const auto rounded = [&](std::uint64_t seed) {
    return Array<S>(Array<bf16>(noise(rows, shape.width, seed)).values());
  };
  Array<S> q = rounded(1), k = rounded(2), v = rounded(3), dout = rounded(4);
  const at::Tensor like = at::zeros({rows, shape.width});
  auto out = Array<S>::like(like), dq = Array<S>::like(like), dk = Array<S>::like(like),
       dv = Array<S>::like(like);
  auto log_sum_exp = Array<float>::like(at::zeros({rows}));
  const auto heads = [&](Array<S>& all) { return heads_of<S>(all.data(), shape, side_by_side); };
  const auto read = [&](Array<S>& all) {
    return heads_of<const S>(all.data(), shape, side_by_side);
  };
  const kernels::AttentionInputs<S> in = {read(q), read(k), read(v)};
  kernels::flash_forward<S, T>(shape, in, heads(out), log_sum_exp.data());
  Array<S> same_out(out_of_bf16.defined() ? out_of_bf16 : out.values());
  kernels::flash_backward<S, T>(
      shape, in, {read(same_out), read(dout), log_sum_exp.data(), heads(dq), heads(dk), heads(dv)});
  return {out.values(), log_sum_exp.values(), dq.values(), dk.values(), dv.values()};
}

const AttentionShape kShapes[] = {{1, 2, 70, 70, 48, true, 0.3F},
                                  {1, 2, 215, 215, 32, true, 0.4F},
                                  {1, 3, 130, 130, 16, false, 0.5F}};

class Flash : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, Flash, test::every_target(), test::target_name);

// Widening is exact, and all else is the same.
TEST_P(Flash, OfBfloat16MultipliedAsFloat32IsThatOfFloat32RoundedOnce) {
  for (const AttentionShape& shape : kShapes) {
    for (const bool side_by_side : {false, true}) {
      const auto narrow = results<bf16, float>(shape, side_by_side, {});
      const auto wide = results<float, float>(shape, side_by_side, narrow[0]);
      EXPECT_TRUE(at::equal(narrow[1], wide[1])) << "log_sum_exp";
      for (const std::size_t i : {0, 2, 3, 4}) {
        EXPECT_TRUE(at::equal(narrow[i], Array<bf16>(wide[i]).values())) << i;
      }
    }
  }
}

// Probabilities and the scores' gradients are rounded to bfloat16 on the way.
TEST_P(Flash, OfPairsIsCloseToThatOfFloat32) {
  for (const AttentionShape& shape : kShapes) {
    for (const bool side_by_side : {false, true}) {
      const auto pairs = results<bf16, bf16>(shape, side_by_side, {});
      const auto wide = results<float, float>(shape, side_by_side, pairs[0]);
      for (std::size_t i = 0; i < wide.size(); ++i) {
        SCOPED_TRACE(i);
        expect_close(pairs[i], wide[i], 0x1p-7, 0x1p-7 * wide[i].abs().max().item<double>());
      }
    }
  }
}

}  // namespace
}  // namespace ddprun
