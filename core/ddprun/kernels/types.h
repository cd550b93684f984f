// The element types of the kernels.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace ddprun::kernels {

/// Kernels compute in float32 whatever the element type, and round to bf16 to nearest even.
/// Every kernel runs on the calling thread alone, allocates nothing, and takes pointers of any
/// alignment and rows of any width, contiguous unless a stride is given. Arrays may overlap only
/// where a declaration says so.
using bf16 = c10::BFloat16;

}  // namespace ddprun::kernels
