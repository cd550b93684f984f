// Reduction loops; CMake compiles this file so that they vectorise and are never contracted.
#include "ddprun/comm/shm_reduce.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "ddprun/kernels/simd_clones.h"

#define DDPRUN_INLINE inline __attribute__((always_inline))

namespace ddprun {

namespace {

using Inputs = std::span<const std::byte* const>;
using Outputs = std::span<std::byte* const>;

/// The bits of a bfloat16.
struct Brain {
  std::uint16_t bits;
};

/// What a type is added up in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, Brain>, float, T>;

template <class T>
DDPRUN_INLINE Sum<T> load(T value) {
  if constexpr (std::is_same_v<T, Brain>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
  } else {
    return value;
  }
}

/// To the nearest, ties to even, as at::BFloat16 does.
template <class T>
DDPRUN_INLINE T store(Sum<T> value) {
  if constexpr (std::is_same_v<T, Brain>) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
    return {static_cast<std::uint16_t>(value != value ? 0x7FC0U : rounded >> 16)};
  } else {
    return value;
  }
}

template <ReduceOp op, class T>
DDPRUN_INLINE T combine(T a, T b) {
  if constexpr (op == ReduceOp::max) {
    return b > a || b != b ? b : a;
  } else {
    return static_cast<T>(a + b);
  }
}

template <ReduceOp op, class T>
DDPRUN_INLINE T finish(T sum, T ranks) {
  if constexpr (op == ReduceOp::avg) {
    return sum / ranks;
  } else {
    return sum;
  }
}

/// Two inputs and two outputs, the all-reduce of two ranks: no memory is touched but these. The
/// pragma holds because an output is an input or apart from it, never shifted.
template <ReduceOp op, class T>
DDPRUN_INLINE void reduce_pair(std::int64_t count, const T* a, const T* b, T* first, T* second) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T result =
        store<T>(finish<op, Sum<T>>(combine<op, Sum<T>>(load(a[i]), load(b[i])), Sum<T>(2)));
    first[i] = result;
    second[i] = result;
  }
}

/// Any number of both, by way of a block that stays in the first-level cache.
template <ReduceOp op, class T>
DDPRUN_INLINE void reduce_blocks(std::int64_t count, Inputs inputs, Outputs outputs) {
  constexpr std::int64_t kBlock = 8192 / sizeof(Sum<T>);
  alignas(64) Sum<T> sums[kBlock];
  const auto ranks = static_cast<Sum<T>>(inputs.size());
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    const auto* first = reinterpret_cast<const T*>(inputs[0]) + begin;
    for (std::int64_t i = 0; i < size; ++i) sums[i] = load(first[i]);
    for (const std::byte* input : inputs.subspan(1)) {
      const auto* values = reinterpret_cast<const T*>(input) + begin;
      for (std::int64_t i = 0; i < size; ++i) {
        sums[i] = combine<op, Sum<T>>(sums[i], load(values[i]));
      }
    }
    for (std::byte* output : outputs) {
      auto* values = reinterpret_cast<T*>(output) + begin;
      for (std::int64_t i = 0; i < size; ++i) {
        values[i] = store<T>(finish<op, Sum<T>>(sums[i], ranks));
      }
    }
  }
}

template <ReduceOp op, class T>
DDPRUN_INLINE void reduce_op(std::int64_t bytes, Inputs inputs, Outputs outputs) {
  const auto count = bytes / static_cast<std::int64_t>(sizeof(T));
  if (inputs.size() == 2 && outputs.size() == 2) {
    reduce_pair<op, T>(count, reinterpret_cast<const T*>(inputs[0]),
                       reinterpret_cast<const T*>(inputs[1]), reinterpret_cast<T*>(outputs[0]),
                       reinterpret_cast<T*>(outputs[1]));
  } else {
    reduce_blocks<op, T>(count, inputs, outputs);
  }
}

template <class T>
DDPRUN_INLINE void reduce(ReduceOp op, std::int64_t bytes, Inputs inputs, Outputs outputs) {
  if (op == ReduceOp::sum) reduce_op<ReduceOp::sum, T>(bytes, inputs, outputs);
  if (op == ReduceOp::max) reduce_op<ReduceOp::max, T>(bytes, inputs, outputs);
  if constexpr (!std::is_integral_v<T>) {
    if (op == ReduceOp::avg) reduce_op<ReduceOp::avg, T>(bytes, inputs, outputs);
  }
}

DDPRUN_SIMD void reduce_float(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  reduce<float>(op, bytes, in, out);
}
DDPRUN_SIMD void reduce_double(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  reduce<double>(op, bytes, in, out);
}
DDPRUN_SIMD void reduce_brain(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  reduce<Brain>(op, bytes, in, out);
}
DDPRUN_SIMD void reduce_int32(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  reduce<std::int32_t>(op, bytes, in, out);
}
DDPRUN_SIMD void reduce_int64(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  reduce<std::int64_t>(op, bytes, in, out);
}
DDPRUN_SIMD void reduce_int8(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  reduce<std::int8_t>(op, bytes, in, out);
}
DDPRUN_SIMD void reduce_uint8(ReduceOp op, std::int64_t bytes, Inputs in, Outputs out) {
  reduce<std::uint8_t>(op, bytes, in, out);
}

using Loop = void (*)(ReduceOp, std::int64_t, Inputs, Outputs);

Loop loop_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return reduce_float;
    case at::kDouble:
      return reduce_double;
    case at::kBFloat16:
      return reduce_brain;
    case at::kInt:
      return reduce_int32;
    case at::kLong:
      return reduce_int64;
    case at::kChar:
      return reduce_int8;
    case at::kByte:
      return reduce_uint8;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_reduce(at::ScalarType type, ReduceOp op) {
  return loop_of(type) != nullptr && (op != ReduceOp::avg || c10::isFloatingType(type));
}

void reduce_elements(at::ScalarType type, ReduceOp op, std::int64_t bytes, Inputs inputs,
                     Outputs outputs) {
  loop_of(type)(op, bytes, inputs, outputs);
}

}  // namespace ddprun
