// What all ranks found.
#include "ddprun/parallel/first_of_all.h"

#include <fmt/format.h>

#include <cstdlib>

namespace ddprun {

std::string first_of_all(ProcessGroup& group, const std::string& own) {
  const auto all = group.all_gather_object(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

std::vector<double> of_all_ranks(ProcessGroup& group, double own) {
  std::vector<double> values;
  for (const std::string& text : group.all_gather_object(fmt::format("{:a}", own))) {
    values.push_back(std::strtod(text.c_str(), nullptr));
  }
  return values;
}

}  // namespace ddprun
