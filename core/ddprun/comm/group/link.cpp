// The formulas of link.h.
#include "ddprun/comm/group/link.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ddprun {

namespace {

/// Of one tree over n ranks.
double tree_depth(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

/// Half of an all-reduce: each slice goes to, or comes from, every rank.
double slices_s(double bytes, int ranks, Link link, Algorithm algorithm) {
  const double others = ranks - 1;
  const double steps = algorithm == Algorithm::alternating_ring ? std::ceil(others / 2) : others;
  return steps * link.latency_s + others / ranks * bytes / link.bytes_per_s;
}

}  // namespace

double collective_s(CollectiveKind kind, double bytes, int ranks, Link link, Algorithm algorithm) {
  if (ranks == 1) return 0;
  const bool tree = algorithm == Algorithm::tree;
  switch (kind) {
    case CollectiveKind::all_reduce:
      if (tree) return 2 * (tree_depth(ranks) * link.latency_s + bytes / link.bytes_per_s);
      return 2 * slices_s(bytes, ranks, link, algorithm);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
      return slices_s(bytes, ranks, link, algorithm);
    case CollectiveKind::broadcast:
      return (tree ? tree_depth(ranks) : ranks - 1) * link.latency_s + bytes / link.bytes_per_s;
    case CollectiveKind::barrier:
      return 2 * tree_depth(ranks) * link.latency_s;
  }
  return 0;
}

double collective_s(CollectiveKind kind, double bytes, int ranks, Link link) {
  return std::min(collective_s(kind, bytes, ranks, link, Algorithm::ring),
                  collective_s(kind, bytes, ranks, link, Algorithm::tree));
}

double hierarchical_all_reduce_s(double bytes, int hosts, int local, Link between, Link within) {
  return 2 * slices_s(bytes, local, within, Algorithm::ring) +
         collective_s(CollectiveKind::all_reduce, bytes / local, hosts, between, Algorithm::ring);
}

double collective_s(CollectiveKind kind, double bytes, int ranks, int ranks_per_host,
                    const Links& links) {
  if (ranks_per_host >= ranks) return collective_s(kind, bytes, ranks, links.within);
  const double flat = collective_s(kind, bytes, ranks, links.between);
  if (kind != CollectiveKind::all_reduce || ranks % ranks_per_host != 0) return flat;
  return std::min(flat, hierarchical_all_reduce_s(bytes, ranks / ranks_per_host, ranks_per_host,
                                                  links.between, links.within));
}

}  // namespace ddprun
