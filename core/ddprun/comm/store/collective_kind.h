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

/// When a caller waits. `next`: before all else, on its thread, where the work may then be done.
enum class Await : std::uint8_t { later, next };

enum class ReduceOp : std::uint8_t { sum, avg, max };

}  // namespace ddprun
