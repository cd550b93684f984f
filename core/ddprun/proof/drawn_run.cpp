// Where a drawn run begins.
#include "ddprun/proof/drawn_run.h"

#include <algorithm>

namespace ddprun {

Range drawn_run(Range part, std::uint64_t draw) {
  const std::int64_t size =
      std::min(part.size(), std::clamp<std::int64_t>(part.size() / 32, 16, 2048));
  const auto places = static_cast<std::uint64_t>(part.size() - size + 1);
  const std::int64_t begin = part.begin + static_cast<std::int64_t>(draw % places);
  return {begin, begin + size};
}

}  // namespace ddprun
