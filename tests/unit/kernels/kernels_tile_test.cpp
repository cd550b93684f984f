// Products of tiles against double at every SIMD level and by each instruction, and the layouts.
#include <array>

#include "ddprun/kernels/attention/tile_layout.h"
#include "ddprun/kernels/attention/tile_product.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/kernels/rows/convert.h"
#include "support/kernel_arrays.h"

namespace ddprun {
namespace {

using kernels::Ahead;
using kernels::bf16;
using kernels::Matrix;
using kernels::Pair;
using kernels::ProductPath;
using test::Array;
using test::expect_close;
using test::noise;

class Tiles : public test::EveryTarget {};
INSTANTIATE_TEST_SUITE_P(, Tiles, test::every_target(), test::target_name);

using Sizes = std::array<std::int64_t, 3>;  // rows, lanes, steps
const Sizes kSizes[] = {{1, 16, 1},   {5, 32, 3},   {12, 48, 16},  {13, 16, 31}, {64, 64, 64},
                        {70, 80, 33}, {6, 96, 130}, {31, 48, 300}, {24, 32, 8}};

const Pair* as_pairs(Array<bf16>& values) { return reinterpret_cast<const Pair*>(values.data()); }

using OfPairs = void (*)(const Matrix<const Pair>&, const Matrix<const Pair>&, bool,
                         const Matrix<float>&, Ahead&);

/// An operand (rows, steps) whose steps lie along its rows, or down its columns.
template <class E>
Matrix<const E> operand(const E* along, const E* down, const Sizes& sizes) {
  const auto [rows, lanes, steps] = sizes;
  if (down == nullptr) return {along, rows, steps, steps};
  return Matrix<const E>{down, steps, rows, rows}.transposed();
}

/// Calls product(left, right, add, c) with the left operand's steps along its rows and down its
/// columns, and expects c (rows, lanes), of stride `stride`.
template <class F>
void check_product(const Sizes& sizes, const at::Tensor& expected, const F& product) {
  const auto [rows, lanes, steps] = sizes;
  SCOPED_TRACE(::testing::Message() << rows << " x " << lanes << " x " << steps);
  for (const bool down : {false, true}) {
    for (const bool add : {false, true}) {
      Array<float> c(noise(rows, lanes + 1, 3));
      const at::Tensor before = c.values();
      product(down, add, Matrix<float>{c.data(), rows, lanes, lanes + 1});
      const at::Tensor after = c.values();
      const at::Tensor sums = add ? expected + before.narrow(1, 0, lanes) : expected;
      expect_close(after.narrow(1, 0, lanes), sums, 1e-6, 1e-5);
      EXPECT_TRUE(at::equal(after.select(1, lanes), before.select(1, lanes))) << "beyond the lanes";
    }
  }
}

void check_floats(const Sizes& sizes) {
  const auto [rows, lanes, steps] = sizes;
  Array<float> left(noise(rows, steps, 1));
  Array<float> turned(noise(rows, steps, 1).t());
  Array<float> right(noise(steps, lanes, 2));
  const Matrix<const float> b = {right.data(), steps, lanes, lanes};
  check_product(sizes, at::mm(left.values(), right.values()),
                [&](bool down, bool add, const Matrix<float>& c) {
                  const float* const columns = down ? turned.data() : nullptr;
                  Ahead ahead(b);
                  kernels::tile_product(operand<float>(left.data(), columns, sizes), b, add, c,
                                        ahead);
                });
}

void check_pairs(OfPairs product, const Sizes& sizes) {
  const auto [rows, lanes, steps] = sizes;
  const at::Tensor values = noise(rows, 2 * steps, 1);
  Array<bf16> left(values);
  Array<bf16> turned(values.view({rows, steps, 2}).transpose(0, 1).contiguous());
  Array<bf16> right(noise(steps, 2 * lanes, 2));
  const Matrix<const Pair> b = {as_pairs(right), steps, lanes, lanes};
  check_product(sizes, at::mm(left.values(), test::unpaired(right.values())),
                [&](bool down, bool add, const Matrix<float>& c) {
                  const Pair* const columns = down ? as_pairs(turned) : nullptr;
                  Ahead ahead(b);
                  product(operand<Pair>(as_pairs(left), columns, sizes), b, add, c, ahead);
                });
}

TEST_P(Tiles, ProductsOfFloatsMatchDouble) {
  for (const Sizes& sizes : kSizes) check_floats(sizes);
}
TEST_P(Tiles, ProductsOfPairsMatchDouble) {
  for (const Sizes& sizes : kSizes) check_pairs(kernels::tile_product_by_floats, sizes);
}
TEST(TilesByAvx512, ProductsMatchDouble) {
  if (!kernels::has(ProductPath::avx512_bf16))
    GTEST_SKIP() << "this CPU has no AVX-512 for bfloat16";
  for (const Sizes& sizes : kSizes) check_pairs(kernels::avx512_tile_product, sizes);
}
TEST(TilesByAmx, ProductsMatchDouble) {
  if (!kernels::has(ProductPath::amx)) GTEST_SKIP() << "this CPU has no AMX for bfloat16";
  for (const Sizes& sizes : kSizes) check_pairs(kernels::amx_tile_product, sizes);
}

TEST_P(Tiles, Transpose) {
  for (const auto& [rows, columns, lanes] :
       {Sizes{1, 1, 16}, {16, 8, 16}, {7, 13, 16}, {30, 6, 32}}) {
    Array<float> in(noise(rows, columns + 3, 1));
    auto out = Array<float>::like(at::zeros({columns, lanes}));
    kernels::transpose(Matrix<const float>{in.data(), rows, columns, columns + 3},
                       Matrix<float>{out.data(), columns, lanes, lanes});
    const at::Tensor expected = at::zeros({columns, lanes}, at::kDouble);
    expected.narrow(1, 0, rows).copy_(in.values().narrow(1, 0, columns).t());
    EXPECT_TRUE(at::equal(out.values(), expected));
  }
}

TEST_P(Tiles, PairsOfRows) {
  for (const auto& [rows, columns, unused] : {Sizes{1, 16, 0}, {2, 5, 0}, {7, 40, 0}}) {
    Array<bf16> in(noise(rows, columns + 3, 1));
    const std::int64_t pairs = (rows + 1) / 2;
    auto out = Array<bf16>::like(at::zeros({pairs, 2 * columns}));
    kernels::pair_rows({in.data(), rows, columns, columns + 3},
                       reinterpret_cast<Pair*>(out.data()));
    const at::Tensor expected = at::zeros({2 * pairs, columns}, at::kDouble);
    expected.narrow(0, 0, rows).copy_(in.values().narrow(1, 0, columns));
    EXPECT_TRUE(at::equal(test::unpaired(out.values()), expected));
  }
}

}  // namespace
}  // namespace ddprun
