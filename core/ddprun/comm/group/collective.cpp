// The bytes that collectives send.
#include "ddprun/comm/group/collective.h"

namespace ddprun {

double wire_bytes(CollectiveKind kind, std::int64_t bytes, int ranks) {
  if (ranks <= 1) return 0.0;
  const double others = static_cast<double>(ranks - 1) / ranks;
  const auto payload = static_cast<double>(bytes);
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2.0 * others * payload;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
      return others * payload;
    case CollectiveKind::broadcast:
      return payload;
    case CollectiveKind::barrier:
      return 0.0;
  }
  return 0.0;
}

double wire_bytes(const std::vector<CollectiveRecord>& records) {
  double sum = 0;
  for (const CollectiveRecord& record : records) {
    sum += wire_bytes(record.kind, record.bytes, record.ranks);
  }
  return sum;
}

}  // namespace ddprun
