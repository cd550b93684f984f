// How long a collective takes over a link of known latency and bandwidth.
#pragma once

#include <cstdint>

#include "ddprun/comm/store/collective_kind.h"

namespace ddprun {

/// A link between any two ranks, in both directions at once.
struct Link {
  double bytes_per_s = 0;
  double latency_s = 0;  ///< of one message
};

/// Seconds of one collective of `bytes` payload over n ranks in the alpha-beta model (Hockney 1994;
/// the algorithms' costs: Thakur, Rabenseifner and Gropp 2005), by the faster of two algorithms:
///     ring   all-reduce 2 (n - 1) (a + B / (n b)); reduce-scatter and all-gather half of it;
///            broadcast, in pieces, (n - 1) a + B / b
///     tree   all-reduce 2 log2(n) (a + B / b); broadcast half of it
/// a: latency, b: bandwidth, B: bytes, log2 rounded up. A barrier is a tree of empty messages. One
/// rank takes no time.
double link_seconds(CollectiveKind kind, std::int64_t bytes, int ranks, const Link& link);

}  // namespace ddprun
