// SwiGLU (Shazeer 2020, equation 6, without its matrices): h = silu(gate) * up.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

// T: float or bf16.

/// up_gate: (rows, 2 * width), each row `width` of up, then `width` of gate. h: (rows, width).
template <class T>
void swiglu(std::int64_t rows, std::int64_t width, const T* up_gate, T* h);

/// d_up_gate is the gradient of both halves, laid out as up_gate; it may be up_gate. Unless h is
/// null, it receives forward's result again, with the same bits.
template <class T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* dh, const T* up_gate,
                     T* d_up_gate, T* h);

}  // namespace ddprun::kernels
