// The options of the section `collectives:`, and the sizes that follow from them.
#include "ddprun/experiments/collectives/collectives_config.h"

#include "ddprun/base/options.h"
#include "ddprun/comm/backends/backend_support.h"

namespace ddprun {

namespace {

constexpr double kManyBytes = 1e12;

}  // namespace

c10::ScalarType scalar_type(ElementType type) {
  constexpr std::array kTypes = {c10::kFloat, c10::kDouble, c10::kHalf, c10::kBFloat16,
                                 c10::kChar,  c10::kByte,   c10::kInt,  c10::kLong};
  return kTypes.at(static_cast<std::size_t>(type));
}

std::int64_t bytes_of(ElementType type) {
  return static_cast<std::int64_t>(c10::elementSize(scalar_type(type)));
}

bool CollectivesConfig::reduces() const { return ddprun::reduces(collective); }

std::int64_t CollectivesConfig::elements(std::int64_t ranks) const {
  if (collective == CollectiveKind::barrier) return 0;
  const std::int64_t parts = slices() ? ranks : 1;
  return bytes / (bytes_of(dtype) * parts) * parts;
}

std::int64_t CollectivesConfig::buffer_bytes(std::int64_t ranks) const {
  const std::int64_t whole = elements(ranks) * bytes_of(dtype);
  if (in_place) return whole;
  return whole + (slices() ? whole / ranks : whole);
}

void declare_options(Options& o, CollectivesConfig& c) {
  o.option("collective", &c.collective, "what is measured");
  o.option("bytes", &c.bytes,
           "of the whole tensor (of an all-gather the output, of a reduce-scatter the input), "
           "rounded down to whole elements and equal slices",
           {.min = 1, .max = kManyBytes});
  o.option("dtype", &c.dtype, "of the elements");
  o.option("op", &c.op, "of all_reduce and reduce_scatter");
  o.option("in_place", &c.in_place,
           "false: the input stays as it is; for all_reduce and broadcast, which c10d has in place "
           "alone, the copy is part of the time");
  o.option("memory", &c.memory,
           "where the buffers lie; group: in what the backend allocates, such as shared memory");
}

}  // namespace ddprun
