// Gives each block a category by its life, adds up, and holds the sum against what is resident.
#include "ddprun/measure/memory_account.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

/// The point with the highest sum; the first of them.
std::size_t highest(const std::vector<MemoryPoint>& points) {
  std::size_t found = 0;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::int64_t all = points[i].bytes.sum();
    if (all > most) found = i;
    most = std::max(most, all);
  }
  return found;
}

}  // namespace

MemoryCategory category_of(const BlockLife& life) {
  if (life.scope) return *life.scope;
  // Tables and masks that are made once; what is larger has a scope.
  if (!life.phase) return MemoryCategory::workspace;
  if (life.again) return life.left ? MemoryCategory::saved : MemoryCategory::backward;
  switch (*life.phase) {
    case Phase::forward:
      if (!life.left) return MemoryCategory::forward;
      return life.stays ? MemoryCategory::workspace : MemoryCategory::saved;
    case Phase::backward:
      return MemoryCategory::backward;
    case Phase::synchronize:
      return MemoryCategory::communication;
    case Phase::setup:
    case Phase::step:
    case Phase::optimizer:
      break;
  }
  return MemoryCategory::workspace;
}

MemoryAccount::MemoryAccount(RecordedMemory recorded, const ResidentMemory& before,
                             std::vector<MemoryLook> looks)
    : recorded_(std::move(recorded)), before_(before) {
  TORCH_CHECK(!looks.empty() && !recorded_.spans.empty(), "a step that was looked at");
  of_device_ = looks.front().device.has_value();
  MemoryPoint now{.time_ns = begin_ns()};
  for (const MemoryBlock& block : recorded_.blocks) {
    categories_.push_back(find_category(block));
    if (block.born_event < 0) now.bytes[categories_.back()] += block.counted_bytes();
  }
  points_.push_back(now);
  for (const MemoryEvent& event : recorded_.events) {
    const std::int64_t bytes = recorded_.blocks[event.block].counted_bytes();
    now.bytes[category(event.block)] += event.allocated ? bytes : -bytes;
    now.time_ns = event.time_ns;
    points_.push_back(now);
  }
  const std::size_t highest_point = highest(points_);
  const auto peak_event = static_cast<int>(highest_point);  // points_[i] is before event i
  bool peak_added = false;
  for (const MemoryLook& look : looks) {
    if (!peak_added && (look.event >= peak_event || &look == &looks.back())) {
      peak_ = moments_.size();
      moments_.push_back(moment_at(look, points_[highest_point], peak_event));
      moments_.back().name = "peak";
      peak_added = true;
    }
    moments_.push_back(moment_at(look, points_[look.event], look.event));
    moments_.back().time_ns = look.time_ns;
  }
}

std::int64_t MemoryAccount::begin_ns() const { return recorded_.spans.front().begin_ns; }
std::int64_t MemoryAccount::end_ns() const { return recorded_.spans.front().end_ns; }

MemoryCategory MemoryAccount::find_category(const MemoryBlock& block) const {
  BlockLife life{.scope = block.scope, .stays = block.died_event < 0};
  if (block.born_event >= 0 && block.born_in >= 0) {
    const MemorySpan& span = recorded_.spans[block.born_in];
    life.phase = span.phase;
    life.again = span.again;
    life.left = life.stays || block.died_event >= span.end_event;
  }
  return category_of(life);
}

MemoryMoment MemoryAccount::moment_at(const MemoryLook& look, const MemoryPoint& point,
                                      int event) const {
  MemoryMoment moment{
      .name = look.name, .time_ns = point.time_ns, .tensors = point.bytes, .bytes = point.bytes};
  if (look.device) {
    add_device(look, moment);
  } else {
    add_process(look, event, moment);
  }
  for (const auto& part : moment.library) moment.bytes[MemoryCategory::library] += part.second;
  return moment;
}

// What the allocator counts and nobody reported, or what was released so, is unexplained. It is
// known at the look, and so small that it is the same at a peak shortly before.
void MemoryAccount::add_device(const MemoryLook& look, MemoryMoment& moment) const {
  const std::int64_t unreported = look.device->allocated - points_[look.event].bytes.sum();
  moment.resident = std::max(look.device->used, look.device->reserved);
  moment.library = {
      {"reserved by the allocator, in no tensor",
       look.device->reserved - moment.tensors.sum() - unreported},
      {"used beside the allocator: context, libraries, other processes",
       moment.resident - look.device->reserved},
  };
}

void MemoryAccount::add_process(const MemoryLook& look, int event, MemoryMoment& moment) const {
  std::int64_t in_heap = 0, in_heap_then = 0, in_segments = 0;  // then: at the look
  for (const MemoryBlock& block : recorded_.blocks) {
    const bool heaped = ResidentMemory::within(look.resident.heap_ranges, block.address);
    if (heaped && block.alive_at(look.event)) in_heap_then += block.counted_bytes();
    if (!block.alive_at(event)) continue;
    if (heaped) in_heap += block.counted_bytes();
    if (ResidentMemory::within(look.resident.shared_ranges, block.address)) {
      in_segments += block.counted_bytes();
    }
  }
  moment.resident = look.resident.total();
  moment.bytes[MemoryCategory::workspace] += look.workspace_bytes;
  moment.bytes[MemoryCategory::communication] +=
      std::max<std::int64_t>(0, look.resident.shared - in_segments);
  const std::int64_t others = std::max<std::int64_t>(0, look.resident.heap_in_use - in_heap_then);
  moment.library = {
      {"files and what was there before the run", look.resident.files + before_.anonymous},
      {"given out by malloc", others - look.workspace_bytes},
      // Less what was given out and is untouched, or shared with the process before the fork.
      {"free in the heap less what is shared or untouched", look.resident.heap - in_heap - others},
  };
}

std::string MemoryAccount::peak_phase() const {
  const std::int64_t time_ns = peak().time_ns;
  std::string name = recorded_.spans.front().name();
  for (const MemorySpan& span : recorded_.spans) {
    if (span.begin_ns <= time_ns && time_ns <= span.end_ns) name = span.name();
  }
  return name;
}

SavedBytes MemoryAccount::saved(const std::string& unit, bool again) const {
  int in = -1;  // the span
  std::map<std::string, std::int64_t> bytes;
  for (std::size_t i = 0; i < recorded_.blocks.size(); ++i) {
    const MemoryBlock& block = recorded_.blocks[i];
    if (categories_[i] != MemoryCategory::saved || block.born_in < 0) continue;
    if (recorded_.spans[block.born_in].again != again || block.place.unit_name() != unit) continue;
    if (in < 0) in = block.born_in;
    if (block.born_in == in) bytes[block.operation] += block.bytes;
  }
  SavedBytes parts(bytes.begin(), bytes.end());
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.second > b.second; });
  return parts;
}

std::vector<std::string> MemoryAccount::units() const {
  std::vector<std::string> units;
  for (std::size_t i = 0; i < recorded_.blocks.size(); ++i) {
    const std::string unit = recorded_.blocks[i].place.unit_name();
    if (categories_[i] != MemoryCategory::saved || unit.empty()) continue;
    if (!contains(units, unit)) units.push_back(unit);
  }
  return units;
}

}  // namespace ddprun
