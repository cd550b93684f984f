// Finds the memory of a range, and shares memory between units that are not neighbours.
#include "ddprun/optim/buffer_places.h"

#include <ATen/ceil_div.h>
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/optim/flat_parts.h"

namespace ddprun {

const BufferPlaces::Part* BufferPlaces::find(Range range) const {
  const auto part =
      std::ranges::find_if(parts_, [&](const Part& each) { return each.range.contains(range); });
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

}  // namespace

std::int64_t UnitPlaces::shared_bytes(const std::vector<std::int64_t>& bytes,
                                      const std::vector<bool>& stays) {
  std::int64_t shared = 0, before = 0;
  for (std::size_t unit = 0; unit < bytes.size(); ++unit) {
    const std::int64_t own = stays[unit] ? 0 : at::round_up(bytes[unit], kCacheLine);
    shared = std::max(shared, before + own);
    before = own;
  }
  return shared;
}

UnitPlaces::UnitPlaces(const std::vector<std::int64_t>& bytes, const std::vector<bool>& stays,
                       const Allocate& allocate, const at::TensorOptions& options)
    : bytes_(bytes) {
  const std::int64_t shared = shared_bytes(bytes, stays);
  std::int64_t end = shared;
  for (std::size_t unit = 0; unit < bytes.size(); ++unit) {
    const std::int64_t lines = at::round_up(bytes[unit], kCacheLine);
    begins_.push_back(stays[unit] ? end : unit % 2 == 0 ? 0 : shared - lines);
    if (stays[unit]) end += lines;
  }
  memory_ = allocate(end, options.dtype(at::kByte));
}

at::Tensor UnitPlaces::place(int unit) const {
  return memory_.narrow(0, begins_[unit], bytes_[unit]);
}

}  // namespace ddprun
