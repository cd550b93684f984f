// SwiGLU (Shazeer 2020, equation 6, without its matrices): h = silu(gate) * up.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// up_gate: (rows, 2 * width), each row `width` of up, then `width` of gate. h: (rows, width).
void swiglu(std::int64_t rows, std::int64_t width, const float* up_gate, float* h);
void swiglu(std::int64_t rows, std::int64_t width, const bf16* up_gate, bf16* h);

/// d_up_gate is the gradient of both halves, laid out as up_gate; it may be up_gate. Unless h is
/// null, it receives forward's result again, with the same bits.
void swiglu_backward(std::int64_t rows, std::int64_t width, const float* dh, const float* up_gate,
                     float* d_up_gate, float* h);
void swiglu_backward(std::int64_t rows, std::int64_t width, const bf16* dh, const bf16* up_gate,
                     bf16* d_up_gate, bf16* h);

}  // namespace ddprun::kernels
