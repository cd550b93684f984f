// Matrix products by every path against double.
#include "ddprun/kernels/product/product.h"

#include <ATen/Parallel.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "ddprun/kernels/product/product_instructions.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/memory/mapped_memory.h"
#include "support/kernel_arrays.h"

namespace ddprun {
namespace {

using kernels::bf16;
using kernels::Matrix;
using kernels::ProductPath;
using test::Array;
using test::expect_close;
using test::kRounding;
using test::noise;

using Sizes = std::array<std::int64_t, 3>;  // m, n, k

enum class Op { plain, transposed };

/// a and b of one product, each as it lies or transposed, with a stride above its width, and their
/// product in double.
template <class T>
struct Operands {
  Operands(Op op_a, Op op_b, const Sizes& sizes)
      : op_a(op_a),
        op_b(op_b),
        sizes(sizes),
        a(stored(op_a, sizes[0], sizes[2], 1)),
        b(stored(op_b, sizes[2], sizes[1], 2)),
        expected(at::mm(used(a, op_a, sizes[0], sizes[2]), used(b, op_b, sizes[2], sizes[1]))) {}

  static at::Tensor stored(Op op, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
    if (op == Op::transposed) std::swap(rows, columns);
    return noise(rows, columns + kMore, seed);
  }
  static at::Tensor used(const Array<T>& array, Op op, std::int64_t rows, std::int64_t columns) {
    if (op == Op::plain) return array.values().narrow(1, 0, columns);
    return array.values().narrow(1, 0, rows).t();
  }
  static Matrix<const T> operand(const T* data, Op op, std::int64_t rows, std::int64_t columns,
                                 std::int64_t more) {
    if (op == Op::plain) return {data, rows, columns, columns + more};
    return Matrix<const T>{data, columns, rows, rows + more}.transposed();
  }
  /// Where a and b lie, with so many values more in a row.
  Matrix<const T> left(const T* data, std::int64_t more) const {
    return operand(data, op_a, sizes[0], sizes[2], more);
  }
  Matrix<const T> right(const T* data, std::int64_t more) const {
    return operand(data, op_b, sizes[2], sizes[1], more);
  }
  Matrix<const T> left() { return left(a.data(), kMore); }
  Matrix<const T> right() { return right(b.data(), kMore); }

  static constexpr std::int64_t kMore = 3;
  Op op_a, op_b;
  Sizes sizes;
  Array<T> a, b;
  at::Tensor expected;
};

/// Values rounded to T between pages that nothing may touch, right after the first or right before
/// the last: sanitizers do not see what tiles and masked vectors load and store.
template <class T>
class Fenced {
 public:
  Fenced(const at::Tensor& values, bool at_end) : sizes_(values.sizes().vec()) {
    const at::Tensor wide = values.contiguous();
    const auto page = static_cast<std::size_t>(::getpagesize());
    const std::size_t bytes = wide.numel() * sizeof(T);
    const std::size_t inside = (bytes + page - 1) / page * page;
    void* const all =
        ::mmap(nullptr, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(all != MAP_FAILED, "mmap");
    memory_ = Mapping(static_cast<std::byte*>(all), inside + 2 * page);
    std::byte* const first = memory_.data() + page;
    TORCH_CHECK(::mprotect(first, inside, PROT_READ | PROT_WRITE) == 0, "mprotect");
    data_ = reinterpret_cast<T*>(at_end ? first + inside - bytes : first);
    const double* const from = wide.const_data_ptr<double>();
    for (std::int64_t i = 0; i < wide.numel(); ++i)
      data_[i] = static_cast<T>(static_cast<float>(from[i]));
  }

  T* data() const { return data_; }
  at::Tensor values() const {
    return at::from_blob(data_, sizes_, c10::CppTypeToScalarType<T>::value).to(at::kDouble);
  }

 private:
  std::vector<std::int64_t> sizes_;
  Mapping memory_;
  T* data_ = nullptr;
};

/// f(operands) for every way the operands may lie.
template <class T, class F>
void for_each_product(std::initializer_list<Sizes> all_sizes, const F& f) {
  for (const Sizes& sizes : all_sizes) {
    for (const Op op_a : {Op::plain, Op::transposed}) {
      for (const Op op_b : {Op::plain, Op::transposed}) {
        SCOPED_TRACE(::testing::Message()
                     << sizes[0] << " x " << sizes[1] << " x " << sizes[2]
                     << (op_a == Op::plain ? " a" : " a^T") << (op_b == Op::plain ? " b" : " b^T"));
        Operands<T> operands(op_a, op_b, sizes);
        f(operands);
      }
    }
  }
}

/// Of sums of k products of values around 1: longer sums round more.
double rounding_of(std::int64_t k) { return 1e-5 * std::max(1.0, static_cast<double>(k) / 256); }

/// What a result of C rounds to, relative to its value.
template <class C>
constexpr double kBound = std::is_same_v<C, float> ? 1e-6 : 1.01 * kRounding<bf16>;

/// Operands of E, and a result of C, to which only one in float32 is added.
template <class E, class C, class P>
void check(const P& product, std::initializer_list<Sizes> all_sizes, double bound = kBound<C>) {
  constexpr bool kAdds = std::is_same_v<C, float>;
  for_each_product<E>(all_sizes, [&](Operands<E>& x) {
    const auto [m, n, k] = x.sizes;
    for (const bool add : {false, true}) {
      if (add && !kAdds) continue;
      Array<C> c(noise(m, n + 1, 3));
      const at::Tensor before = c.values();
      product(x.left(), x.right(), add, Matrix<C>{c.data(), m, n, n + 1});
      const at::Tensor after = c.values();
      expect_close(after.narrow(1, 0, n), add ? x.expected + before.narrow(1, 0, n) : x.expected,
                   bound, rounding_of(k) + (kAdds ? bound : 0));
      EXPECT_TRUE(at::equal(after.select(1, n), before.select(1, n))) << "beyond the row";
    }
  });
}

/// Rows of c are one value longer than n: those of 47 begin at a line of the caches.
const std::initializer_list<Sizes> kSmall = {{1, 1, 1},    {5, 7, 3},    {33, 20, 65},
                                             {32, 64, 96}, {37, 47, 50}, {130, 37, 70}};
/// Beyond one block of m, n or k, with an operand a that stays packed and one that does not.
const std::initializer_list<Sizes> kBlocked = {
    {70, 530, 40}, {40, 33, 1100}, {1060, 37, 64}, {1030, 520, 1030}};

TEST(Products, MatchDouble) {
  check<float, float>(kernels::product<float, float>, kSmall);
  check<bf16, float>(kernels::product<bf16, float>, kSmall);  // sums and result in float32
  check<bf16, bf16>(kernels::product<bf16, bf16>, kSmall);
}

TEST(Products, LibrariesMatchDouble) {
  check<bf16, float>(kernels::product_by_floats<float>, kSmall);
  check<bf16, bf16>(kernels::product_by_floats<bf16>, kSmall);
  check<bf16, float>(kernels::product_by_library<bf16, float>, kSmall);
  check<float, float>(kernels::product_by_library<float, float>, kSmall);
  check<float, float>(kernels::product_by_aten<float, float>, kSmall);
  check<bf16, float>(kernels::product_by_aten<bf16, float>, kSmall, 0x1p-8);
  check<bf16, bf16>(kernels::product_by_aten<bf16, bf16>, kSmall);
}

/// The same of operands and a result between pages that nothing may touch.
template <class E, class C, class P>
void check_between_fences(const P& product) {
  for_each_product<E>(kSmall, [&](const Operands<E>& x) {
    const auto tight = [](const Array<E>& array) {
      const at::Tensor values = array.values();
      return values.narrow(1, 0, values.size(1) - Operands<E>::kMore);
    };
    const auto [m, n, k] = x.sizes;
    for (const bool at_end : {false, true}) {
      const Fenced<E> a(tight(x.a), at_end), b(tight(x.b), at_end);
      const Fenced<C> c(at::zeros({m, n}, at::kDouble), at_end);
      product(x.left(a.data(), 0), x.right(b.data(), 0), std::is_same_v<C, float>,
              Matrix<C>{c.data(), m, n, n});
      expect_close(c.values(), x.expected, kBound<C>, 1e-5);
    }
  });
}

/// Products by kernels of this project's own.
template <class E, class C, class P>
void check_own(const P& product) {
  check<E, C>(product, kSmall);
  check<E, C>(product, kBlocked);
  check_between_fences<E, C>(product);
}

TEST(ProductsByAmx, MatchDoubleAndTouchNothingOutside) {
  if (!kernels::has(ProductPath::amx)) GTEST_SKIP() << "this CPU has no AMX for bfloat16";
  check_own<bf16, float>(kernels::amx_product<float>);
  check_own<bf16, bf16>(kernels::amx_product<bf16>);
}

TEST(ProductsByAvx512, MatchDoubleAndTouchNothingOutside) {
  if (!kernels::has(ProductPath::avx512_bf16))
    GTEST_SKIP() << "this CPU has no AVX-512 for bfloat16";
  check_own<float, float>(kernels::avx512_product<float, float, float>);
  check_own<bf16, float>(kernels::avx512_product<bf16, bf16, float>);
  check_own<bf16, bf16>(kernels::avx512_product<bf16, bf16, bf16>);
  check_own<bf16, float>(kernels::avx512_product<float, bf16, float>);
  check_own<bf16, bf16>(kernels::avx512_product<float, bf16, bf16>);
}

TEST(ProductPath, IsTheOneThatTheVariableNames) {
  const auto refused = [](const char* name) {
    ::setenv("DDPRUN_PRODUCTS", name, 1);
    const std::string words = kernels::refused_products();
    ::unsetenv("DDPRUN_PRODUCTS");
    return words;
  };
  EXPECT_EQ(kernels::refused_products(), "");
  EXPECT_EQ(refused("float32"), "");
  EXPECT_EQ(refused("library"), "");
  EXPECT_EQ(refused("AMX"), "no such path");
  EXPECT_EQ(refused("amx").empty(), kernels::has(ProductPath::amx));
  EXPECT_EQ(refused("avx512_bf16").empty(), kernels::has(ProductPath::avx512_bf16));
  EXPECT_TRUE(kernels::has(kernels::product_path()));
}

TEST(Products, OfNothingAreZero) {
  float c[] = {1.0F, 2.0F};
  const bf16 none{};
  const Matrix<const bf16> a = {&none, 1, 0, 1};
  const Matrix<const bf16> b = {&none, 0, 2, 1};
  kernels::product(a, b, true, Matrix<float>{c, 1, 2, 2});
  EXPECT_EQ(c[0], 1.0F);
  kernels::product(a, b, false, Matrix<float>{c, 1, 2, 2});
  EXPECT_EQ(c[0], 0.0F);
  EXPECT_EQ(c[1], 0.0F);
}

// Threads take whole tiles of the result: its bits do not depend on how many there are.
TEST(Products, BitsDoNotDependOnThreads) {
  for (const Sizes& sizes : {Sizes{300, 200, 700}, Sizes{200, 300, 700}}) {
    const auto [m, n, k] = sizes;
    Operands<bf16> x(Op::plain, Op::transposed, sizes);
    std::vector<at::Tensor> results;
    for (const int count : {1, 3}) {
      at::set_num_threads(count);
      Array<float> c(at::zeros({m, n}));
      kernels::product(x.left(), x.right(), false, Matrix<float>{c.data(), m, n, n});
      results.push_back(c.values());
    }
    EXPECT_TRUE(at::equal(results[0], results[1]));
  }
}

}  // namespace
}  // namespace ddprun
