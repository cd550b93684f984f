// Which of their compiled copies the kernels run on this CPU.
#pragma once

namespace ddprun::kernels {

/// Highway's name of the SIMD level that it chooses here: "AVX3", "AVX2", "SSE4".
const char* simd_level();

}  // namespace ddprun::kernels
