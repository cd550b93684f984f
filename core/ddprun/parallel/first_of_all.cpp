// What all ranks found.
#include "ddprun/parallel/first_of_all.h"

#include <fmt/format.h>

#include <cstdlib>

#include "ddprun/base/ranges.h"

namespace ddprun {

std::string first_of_all(ProcessGroup& group, const std::string& own) {
  const auto all = group.all_gather_object(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

std::vector<double> of_all_ranks(ProcessGroup& group, double own) {
  return mapped(group.all_gather_object(fmt::format("{:a}", own)),
                [](const std::string& text) { return std::strtod(text.c_str(), nullptr); });
}

}  // namespace ddprun
