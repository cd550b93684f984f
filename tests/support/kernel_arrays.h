// Arrays and SIMD levels for tests of the CPU kernels.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <vector>

#include "ddprun/kernels/types.h"

namespace ddprun::test {

/// Runs a test once for each SIMD level that is compiled in and that this CPU has.
class EveryTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline auto every_target() { return ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()); }

inline std::string target_name(const ::testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

/// Reproducible values in [-1, 1), (rows, width), in double.
inline at::Tensor noise(std::int64_t rows, std::int64_t width, std::uint64_t seed) {
  at::Tensor values = at::empty({rows, width}, at::kDouble);
  double* const out = values.data_ptr<double>();
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out[i] = static_cast<double>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31;
  }
  return values;
}

/// Values rounded to T. They lie at an address with the alignment of T and no more, between marks
/// that no kernel may overwrite.
template <class T>
class Array {
 public:
  explicit Array(const at::Tensor& values) : sizes_(values.sizes().vec()) {
    const at::Tensor wide = values.to(at::kDouble).contiguous();
    const double* const from = wide.const_data_ptr<double>();
    storage_.assign(wide.numel() + 2 * kMarks, static_cast<T>(kMark));
    for (std::int64_t i = 0; i < wide.numel(); ++i) {
      storage_[kMarks + i] = static_cast<T>(static_cast<float>(from[i]));
    }
  }
  static Array like(const at::Tensor& values) { return Array(at::full_like(values, 512.0)); }

  T* data() { return storage_.data() + kMarks; }

  /// Returns the values in double. Expects that the marks are unchanged.
  at::Tensor values() const {
    at::Tensor out = at::empty(sizes_, at::kDouble);
    double* const to = out.data_ptr<double>();
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      to[i] = static_cast<double>(static_cast<float>(storage_[kMarks + i]));
    }
    for (std::int64_t i = 0; i < kMarks; ++i) {
      EXPECT_EQ(static_cast<float>(storage_[i]), kMark) << "written before the array";
      EXPECT_EQ(static_cast<float>(storage_[storage_.size() - 1 - i]), kMark)
          << "written past the array";
    }
    return out;
  }

 private:
  static constexpr std::int64_t kMarks = 33;
  static constexpr float kMark = 768.0f;
  std::vector<std::int64_t> sizes_;
  std::vector<T> storage_;
};

/// Values (steps, 2 * lanes) of pairs, unpaired: (2 * steps, lanes).
inline at::Tensor unpaired(const at::Tensor& pairs) {
  return pairs.view({pairs.size(0), -1, 2}).transpose(1, 2).flatten(0, 1);
}

/// The largest rounding error of T, relative to the value: half of the last place.
template <class T>
inline constexpr double kRounding = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-8;

inline double largest(const at::Tensor& values) { return values.abs().max().item<double>(); }

/// Expects |got - expected| <= relative * |expected| + absolute for each value. Infinities and NaN
/// fail.
inline void expect_close(const at::Tensor& got, const at::Tensor& expected, double relative,
                         double absolute) {
  const at::Tensor excess = (got - expected).abs() - expected.abs() * relative - absolute;
  const double worst = excess.max().item<double>();
  EXPECT_TRUE(worst <= 0.0) << "worst " << worst << " over the bound " << relative << " * |x| + "
                            << absolute << ", largest value " << largest(expected);
}

}  // namespace ddprun::test
