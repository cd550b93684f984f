// What a ParameterLayout is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/optim/buffer_dtypes.h"
#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

struct ParameterLayout::Data {
  void place(const std::vector<NamedTensor>& parameters);
  void choose_dtypes(const std::vector<NamedTensor>& parameters);

  std::vector<std::string> names;  // by parameter, as those that follow
  std::vector<Range> ranges;
  std::vector<std::vector<std::int64_t>> sizes;
  std::vector<int> unit_of;
  std::vector<bool> copied_too;  // read in float32, and its copy by products
  std::vector<Unit> units;
  BufferDtypes dtypes;
  bool has_copy = false;
  Range copied;
  int ranks = 1, ranks_per_host = 1;
  std::int64_t parameter_count = 0;
};

}  // namespace ddprun
