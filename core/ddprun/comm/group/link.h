// How long a collective takes on a link, on paper: alpha (latency) and beta (bandwidth).
#pragma once

#include <cstdint>

#include "ddprun/comm/store/collective_kind.h"

namespace ddprun {

enum class Algorithm : std::uint8_t {
  ring,              ///< n - 1 steps of a slice, in one direction
  alternating_ring,  ///< the same slices, half of them in each direction at a time
  tree,              ///< two binary trees with half of the data each
};

/// What joins two neighbours. Of an alternating ring the bandwidth is that of both directions
/// together, as the Scaling Book counts it; else of one.
struct Link {
  double bytes_per_s = 0;
  double latency_s = 0;
};

/// What joins two ranks of one host, and two of different ones.
struct Links {
  Link within, between;
};

/// Seconds that a collective of `bytes` payload takes on `ranks` ranks. With n ranks, S bytes, W
/// bandwidth and a latency:
///     reduce-scatter, all-gather   ring (n-1) a + (n-1)/n S/W; alternating ring ceil((n-1)/2) a +
///                                  (n-1)/n S/W; tree: as ring, as no tree gathers slices
///     all-reduce                   both in turn; tree 2 ceil(log2 n) a + 2 S/W
///     broadcast                    ring (n-1) a + S/W; tree ceil(log2 n) a + S/W
///     barrier                      2 ceil(log2 n) a
/// Sources: Hockney 1994 (the model); Thakur, Rabenseifner and Gropp 2005 (ring); Sanders, Speck
/// and Träff 2009 (two trees); Austin et al. 2025, "How to Scale Your Model", on sharded matrices
/// (alternating ring).
double collective_s(CollectiveKind kind, double bytes, int ranks, Link link, Algorithm algorithm);
/// By the faster of ring and tree.
double collective_s(CollectiveKind kind, double bytes, int ranks, Link link);

/// An all-reduce over `hosts` hosts of `local` ranks: reduce-scatter within each, all-reduce of the
/// slices between, all-gather within.
double hierarchical_all_reduce_s(double bytes, int hosts, int local, Link between, Link within);

/// Of ranks of which `ranks_per_host` are on each host. Where they are on several, an all-reduce
/// takes the faster of that and of one ring or tree over the links between hosts; all else takes
/// these links.
double collective_s(CollectiveKind kind, double bytes, int ranks, int ranks_per_host,
                    const Links& links);

}  // namespace ddprun
