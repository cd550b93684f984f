// The kinds of collectives.
#pragma once

#include <cstdint>

namespace ddprun {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  barrier
};

enum class ReduceOp : std::uint8_t { sum, avg, max };

}  // namespace ddprun
