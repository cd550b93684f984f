// The names of collectives, and the record of one that ran.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/base/choice.h"
#include "ddprun/comm/store/collective_kind.h"

namespace ddprun {

constexpr auto choice_names(CollectiveKind) {
  return std::array{"all_reduce", "broadcast", "reduce_scatter", "all_gather", "barrier"};
}

/// One collective as it ran on this rank. Times: nanoseconds of now_ns().
struct CollectiveRecord {
  CollectiveKind kind = CollectiveKind::barrier;
  /// Payload: bytes of the (unsharded) tensor. wire_bytes() derives what is sent.
  std::int64_t bytes = 0;
  int ranks = 1;           ///< of the group that made it
  int ranks_per_host = 1;  ///< of these, on this rank's host
  std::string label;
  std::int64_t enqueue_ns = 0;     ///< the call
  std::int64_t start_ns = 0;       ///< a thread began with it, or became free for it
  std::int64_t end_ns = 0;         ///< the result was there
  std::int64_t wait_begin_ns = 0;  ///< someone began to wait; 0: nobody waited
  std::int64_t wait_end_ns = 0;
};

/// Bytes that one rank sends for a collective of `bytes` payload over n ranks, if the algorithm is
/// bandwidth-optimal (nccl-tests doc/PERFORMANCE.md). The factor is 2(n-1)/n for all-reduce,
/// (n-1)/n for reduce-scatter and all-gather, 1 for broadcast (0 if n == 1).
double wire_bytes(CollectiveKind kind, std::int64_t bytes, int ranks);
/// Of several collectives together.
double wire_bytes(const std::vector<CollectiveRecord>& records);

}  // namespace ddprun
