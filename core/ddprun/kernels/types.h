// The element types of the kernels.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace ddprun::kernels {

/// Kernels compute in float32 whatever the element type, and round to bf16 to nearest even. Every
/// kernel runs on the calling thread alone and allocates nothing. Pointers may have any alignment,
/// and rows any width; rows are contiguous unless a stride is given. Arrays may overlap only where
/// a declaration says so.
using bf16 = c10::BFloat16;

}  // namespace ddprun::kernels
