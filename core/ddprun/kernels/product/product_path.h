// Which instructions multiply matrices here.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ddprun::kernels {

/// How products of bfloat16 matrices are computed. All sum in float32, in orders of their own: two
/// of them agree to rounding, not in bits.
enum class ProductPath : std::uint8_t {
  amx,          ///< tiles of Intel's AMX
  avx512_bf16,  ///< VDPBF16PS: AMD from Zen 4; Intel has it from Cooper Lake on, and is slow at it
  float32,      ///< operands are widened, and multiplied as float32: any CPU
  library,      ///< MKL's own, or ATen's; nowhere the default
};
constexpr auto choice_names(ProductPath) {
  return std::array{"amx", "avx512_bf16", "float32", "library"};
}

/// Whether this CPU has the path's instructions, and the kernel lets this process use them.
bool has(ProductPath path);

/// That of this process: the one that the variable DDPRUN_PRODUCTS names, else the first of the
/// list that the CPU has and is fast at. Chosen at the first call. Throws c10::Error where
/// refused_products() has words.
ProductPath product_path();

/// How products of float32 matrices are computed.
enum class FloatPath : std::uint8_t {
  avx512,   ///< our own: on CPUs for which MKL has a lesser kernel (AMD from Zen 4 on)
  library,  ///< MKL's, or ATen's
};
constexpr auto choice_names(FloatPath) { return std::array{"avx512", "library"}; }

/// That of this process: the library's where DDPRUN_PRODUCTS says `library`. Throws as
/// product_path().
FloatPath float_path();

/// What is wrong with the value of DDPRUN_PRODUCTS on this CPU; empty: nothing.
std::string refused_products();

}  // namespace ddprun::kernels
