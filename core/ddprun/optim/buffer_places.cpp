// Finds the memory of a range, and shares memory between units that are not neighbours.
#include "ddprun/optim/buffer_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/optim/flat_parts.h"

namespace ddprun {

const BufferPlaces::Part* BufferPlaces::find(Range range) const {
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [&](const Part& each) { return each.range.contains(range); });
  return part == parts_.end() ? nullptr : &*part;
}

at::Tensor BufferPlaces::view(Range range) const {
  const Part* const part = find(range);
  if (part != nullptr) return part_of(part->memory, part->range, range);
  throw Error({.what = "this rank does not hold these elements together",
               .where = "the flat buffers",
               .got = fmt::format("elements {} to {}", range.begin, range.end),
               .expected = parts_.empty() ? "none" : "a range within what the rank holds",
               .hint = "a strategy's plan says what each rank owns, and which units are gathered"});
}

namespace {

constexpr std::int64_t kCacheLine = 64;

std::int64_t whole_lines(std::int64_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace

UnitPlaces::UnitPlaces(const std::vector<std::int64_t>& bytes, bool for_all,
                       const Allocate& allocate, const at::TensorOptions& options)
    : bytes_(bytes) {
  std::int64_t all = 0, most = whole_lines(bytes.front());
  for (std::size_t unit = 0; unit < bytes.size(); ++unit) {
    begins_.push_back(all);
    all += whole_lines(bytes[unit]);
    if (unit > 0) most = std::max(most, whole_lines(bytes[unit - 1]) + whole_lines(bytes[unit]));
  }
  memory_ = allocate(for_all ? all : most, options.dtype(at::kByte));
  if (for_all) return;
  for (std::size_t unit = 0; unit < bytes.size(); ++unit) {
    begins_[unit] = unit % 2 == 0 ? 0 : most - whole_lines(bytes[unit]);
  }
}

at::Tensor UnitPlaces::place(int unit) const {
  return memory_.narrow(0, begins_[unit], bytes_[unit]);
}

}  // namespace ddprun
