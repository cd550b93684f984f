// Normal values out of counter-based bits: the initial values of parameters.
#pragma once

#include <cstdint>

namespace ddprun::kernels {

/// Writes values [begin, end) of a stream to `out`: `scale` times a standard normal value (Box and
/// Muller's cosine), drawn again beyond 3. Value i depends on `key` and i alone; its bits are
/// counter_hash()'s, where `key` is mix_bits() of the stream's.
void write_normal_values(std::uint64_t key, std::int64_t begin, std::int64_t end, float scale,
                         float* out);

}  // namespace ddprun::kernels
