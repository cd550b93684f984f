// Element-wise kernels between arrays: conversion from and to bf16, addition, accumulation, copies.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Rounds to nearest even. A NaN stays a NaN.
void to_bf16(std::int64_t count, const float* from, bf16* to);
/// Exact.
void to_float(std::int64_t count, const bf16* from, float* to);

/// out = x + y; out may be x. T: float or bf16.
template <class T>
void add(std::int64_t count, const float* x, const T* y, float* out);

/// out += scale * x.
void accumulate_scaled(std::int64_t count, float scale, const float* x, float* out);

/// Copies what is read by nobody soon: it goes past the caches, and so needs no line of `to` first.
void copy_past_caches(std::int64_t bytes, const void* from, void* to);

}  // namespace ddprun::kernels
