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

/// When a caller waits. `next`: before all else, on its thread, which may then do the work.
/// `batch`: later, for several, and for its peers not before: small ones may be left till then.
enum class Await : std::uint8_t { later, batch, next };

enum class ReduceOp : std::uint8_t { sum, avg, max };

}  // namespace ddprun
