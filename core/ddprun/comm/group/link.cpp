// The alpha-beta model of collectives.
#include "ddprun/comm/group/link.h"

#include <algorithm>
#include <bit>

namespace ddprun {

double link_seconds(CollectiveKind kind, std::int64_t bytes, int ranks, const Link& link) {
  if (ranks <= 1) return 0;
  const double a = link.latency_s, whole = static_cast<double>(bytes) / link.bytes_per_s;
  const double others = ranks - 1, slice = whole / ranks;
  const double levels = std::bit_width(static_cast<unsigned>(ranks - 1));
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * std::min(others * (a + slice), levels * (a + whole));
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
      return others * (a + slice);
    case CollectiveKind::broadcast:
      return std::min(others * a + whole, levels * (a + whole));
    case CollectiveKind::barrier:
      break;
  }
  return 2 * levels * a;
}

}  // namespace ddprun
