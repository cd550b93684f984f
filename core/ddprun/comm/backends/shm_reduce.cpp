// Reduction loops, compiled once a SIMD level and chosen at run time.
#include "ddprun/comm/backends/shm_reduce.h"

#include <array>
#include <type_traits>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/comm/backends/shm_reduce.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/base/ranges.h"
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = kernels::HWY_NAMESPACE;
using kernels::bf16;
using Inputs = std::span<const std::byte* const>;
using Outputs = std::span<std::byte* const>;

/// What a type is added up in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

template <ReduceOp op, class D, class V = hn::Vec<D>>
HWY_INLINE V combine(D, V a, V b) {
  if constexpr (op != ReduceOp::max) {
    return hn::Add(a, b);
  } else if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  } else {
    return hn::Max(a, b);
  }
}

template <class T>
using Lanes = hn::ScalableTag<Sum<T>>;

template <class T, class Which>
HWY_INLINE hn::Vec<Lanes<T>> load(const T* from, Which which) {
  if constexpr (std::is_same_v<T, bf16>) {
    return simd::load(from, which);
  } else {
    return simd::load_lanes(Lanes<T>(), from, which);
  }
}

template <class T, class Which>
HWY_INLINE void store(hn::Vec<Lanes<T>> vector, T* to, Which which) {
  if constexpr (std::is_same_v<T, bf16>) {
    simd::store(vector, to, which);
  } else {
    simd::store_lanes(Lanes<T>(), vector, to, which);
  }
}

// A vector of each input is read before the outputs of that place are written, and no other memory
// is touched. So an output may be an input, or lie apart from it, but not overlap it shifted.

/// Two inputs and two outputs: the all-reduce of two ranks. Addresses stay in registers, and a
/// multiplication by one half is the same as a division by two.
template <class T, ReduceOp op>
HWY_INLINE void reduce_pair(std::int64_t count, const T* a, const T* b, T* first, T* second) {
  const Lanes<T> d;
  simd::for_vectors_of(d, 0, count, [=](auto lanes, std::int64_t i) HWY_ATTR {
    auto sum = combine<op>(d, load(a + i, lanes), load(b + i, lanes));
    if constexpr (op == ReduceOp::avg) sum = hn::Mul(sum, hn::Set(d, Sum<T>(0.5)));
    store(sum, first + i, lanes);
    store(sum, second + i, lanes);
  });
}

template <class T, ReduceOp op>
HWY_INLINE void reduce(std::int64_t bytes, Inputs inputs, Outputs outputs) {
  const auto count = bytes / static_cast<std::int64_t>(sizeof(T));
  const auto input = [&](std::size_t k) { return reinterpret_cast<const T*>(inputs[k]); };
  const auto output = [&](std::size_t k) { return reinterpret_cast<T*>(outputs[k]); };
  if (inputs.size() == 2 && outputs.size() == 2) {
    return reduce_pair<T, op>(count, input(0), input(1), output(0), output(1));
  }
  const Lanes<T> d;
  const auto ranks = hn::Set(d, static_cast<Sum<T>>(inputs.size()));
  simd::for_vectors_of(d, 0, count, [&](auto lanes, std::int64_t i) HWY_ATTR {
    auto sum = load(input(0) + i, lanes);
    for (std::size_t k = 1; k < inputs.size(); ++k) {
      sum = combine<op>(d, sum, load(input(k) + i, lanes));
    }
    if constexpr (op == ReduceOp::avg) sum = hn::Div(sum, ranks);
    for (std::size_t k = 0; k < outputs.size(); ++k) store(sum, output(k) + i, lanes);
  });
}

template <class T>
void reduce_by(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  if (op == ReduceOp::sum) reduce<T, ReduceOp::sum>(bytes, in, out);
  if (op == ReduceOp::max) reduce<T, ReduceOp::max>(bytes, in, out);
  if constexpr (!std::is_integral_v<T>) {
    if (op == ReduceOp::avg) reduce<T, ReduceOp::avg>(bytes, in, out);
  }
}

/// What can_reduce() allows.
constexpr std::pair<at::ScalarType, decltype(&reduce_by<float>)> kReduceBy[] = {
    {at::kFloat, reduce_by<float>},       {at::kDouble, reduce_by<double>},
    {at::kBFloat16, reduce_by<bf16>},     {at::kInt, reduce_by<std::int32_t>},
    {at::kLong, reduce_by<std::int64_t>}, {at::kChar, reduce_by<std::int8_t>},
    {at::kByte, reduce_by<std::uint8_t>}};

void reduce_elements(at::ScalarType type, ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  for (const auto& [each, reduce] : kReduceBy) {
    if (each == type) return reduce(op, bytes, in, out);
  }
}

}  // namespace ddprun::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun {

HWY_EXPORT(reduce_elements);

bool can_reduce(at::ScalarType type, ReduceOp op) {
  constexpr std::array kFloating = {at::kFloat, at::kDouble, at::kBFloat16};
  constexpr std::array kIntegral = {at::kInt, at::kLong, at::kChar, at::kByte};
  const auto is_of = [type](const auto& types) { return contains(types, type); };
  return is_of(kFloating) || (op != ReduceOp::avg && is_of(kIntegral));
}

void reduce_elements(at::ScalarType type, ReduceOp op, std::int64_t bytes,
                     std::span<const std::byte* const> inputs,
                     std::span<std::byte* const> outputs) {
  HWY_DYNAMIC_DISPATCH(reduce_elements)(type, op, bytes, inputs, outputs);
}

}  // namespace ddprun
#endif
