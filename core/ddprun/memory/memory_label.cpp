// Where each thread is, and who hears of it.
#include "ddprun/memory/memory_label.h"

namespace ddprun {

namespace {

thread_local MemoryPlace here;
thread_local PlaceListener* listening = nullptr;

void go_to(const MemoryPlace& place) {
  here = place;
  if (listening != nullptr) listening->on_place(place);
}

}  // namespace

std::string MemoryPlace::unit_name() const {
  if (unit == nullptr) return {};
  return index < 0 ? unit : unit + ("." + std::to_string(index));
}

PlaceListener::~PlaceListener() = default;
void PlaceListener::set(PlaceListener* listener) { listening = listener; }

MemoryLabel::MemoryLabel(const MemoryPlace& place) : outer_(here) { go_to(place); }
MemoryLabel::MemoryLabel(const char* operation)
    : MemoryLabel(MemoryPlace{here.unit, here.index, operation}) {}
MemoryLabel::MemoryLabel(const char* unit, std::int64_t index)
    : MemoryLabel(MemoryPlace{.unit = unit, .index = index}) {}
MemoryLabel::~MemoryLabel() { go_to(outer_); }

const MemoryPlace& MemoryLabel::current() { return here; }

ForwardAgain::ForwardAgain() {
  if (listening != nullptr) listening->on_forward_again(true);
}
ForwardAgain::~ForwardAgain() {
  if (listening != nullptr) listening->on_forward_again(false);
}

}  // namespace ddprun
