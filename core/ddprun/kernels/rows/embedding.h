// The gradient of an embedding table.
#pragma once

#include <cstdint>

namespace ddprun::kernels {

/// gradient[ids[row]] += dx[row] in columns [begin, end), in the order of the rows. Each thread
/// takes some of the columns, so an id that occurs twice is no race. dx: (rows, width); ids:
/// (rows); gradient: (vocab, width).
void embedding_backward(std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end,
                        const float* dx, const std::int64_t* ids, float* gradient);

}  // namespace ddprun::kernels
