// A stack of phases and calls, whose top is what the time goes to.
#include "ddprun/profile/operator_trace.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddprun {

namespace {

constexpr std::string_view kAttention = "attention";

/// Without the node's name behind the engine's.
std::string short_name(std::string_view name) {
  return std::string(name.substr(0, name.find(": ")));
}

const char* text(const char* name) { return name == nullptr ? "" : name; }

}  // namespace

/// While it lives, time goes to the row of recording, if the thread is in the step.
class OperatorTrace::Recording {
 public:
  explicit Recording(OperatorTrace& trace) : trace_(trace) {
    trace_.charge(trace_.in_step() ? trace_.frames_.back().row : nullptr);
  }
  ~Recording() { trace_.charge(trace_.in_step() ? &trace_.recording_ : nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  OperatorTrace& trace_;
};

OperatorTrace::OperatorTrace(Clock clock)
    : OperatorListener(Wants::inputs_and_outputs),
      clock_(std::move(clock)),
      to_this_(*this),
      place_(MemoryLabel::current()) {
  PlaceListener::set(this);
}

OperatorTrace::~OperatorTrace() { PlaceListener::set(nullptr); }

void OperatorTrace::charge(OperatorRow* row) {
  const std::int64_t now = clock_();
  if (row != nullptr) row->ns += now - since_ns_;
  since_ns_ = now;
}

OperatorRow* OperatorTrace::row_here(const char* phase, const std::string& name,
                                     const std::string& dtype) {
  OperatorRow row = {.phase = phase,
                     .unit = text(place_.unit),
                     .part = text(place_.operation),
                     .name = name,
                     .dtype = dtype};
  const auto [found, added] = rows_.try_emplace({row.phase, row.unit, row.part, name, dtype});
  if (added) found->second = std::move(row);
  return &found->second;
}

void OperatorTrace::settle() {
  if (!in_step() || frames_.back().call) return;
  frames_.back().row = row_here(frames_.back().phase, kBetweenOperators);
}

void OperatorTrace::open_phase(const char* name, bool in_step) {
  frames_.push_back({.phase = name});
  if (in_step) frames_.back().row = row_here(name, kBetweenOperators);
}

OperatorTrace::Frame OperatorTrace::close() {
  Frame closed = std::move(frames_.back());
  frames_.pop_back();
  settle();
  return closed;
}

void OperatorTrace::begin(Phase phase) {
  const Recording recording(*this);
  if (phase == Phase::step) begin_ns_ = since_ns_;
  open_phase(to_string(phase), in_step() || phase == Phase::step);
}

void OperatorTrace::end(Phase phase) {
  const Recording recording(*this);
  if (phase == Phase::step) step_ns_ += since_ns_ - begin_ns_;
  if (!frames_.empty()) close();
}

void OperatorTrace::on_forward_again(bool begins) {
  const Recording recording(*this);
  if (begins) {
    open_phase("forward again", in_step());
  } else if (!frames_.empty()) {
    close();
  }
}

void OperatorTrace::on_place(const MemoryPlace& place) {
  const Recording recording(*this);
  place_ = place;
  go_to(place);
  settle();
}

void OperatorTrace::enter_part(const char* part) {
  place_.operation = part;
  go_to(place_);
}

void OperatorTrace::on_begin(const at::RecordFunction& call, bool node) {
  const Recording recording(*this);
  Frame frame = {.call = true, .node = node};
  if (in_step()) {
    frame.phase = frames_.back().phase;
    const std::string name = short_name(call.name());
    if (!node) {
      frame.flops = flops_of(call);
      frame.given = given_tensors(call);
    }
    const bool attention = text(place_.operation) == kAttention;
    frame.softmax = attention && !node && name.find("softmax") != std::string::npos;
    if (frame.softmax) enter_part("softmax");
    const bool product =
        attention && frame.flops > 0 && name.find("attention") == std::string::npos;
    const MemoryPlace here = place_;
    if (product && !frame.softmax) place_.operation = "attention scores";
    frame.row = row_here(frame.phase, name, frame.given.dtype);
    place_ = here;
    ++frame.row->calls;
  }
  frames_.push_back(std::move(frame));
}

void OperatorTrace::on_end(const at::RecordFunction& call) {
  const Recording recording(*this);
  if (frames_.empty()) return;
  if (frames_.back().softmax) enter_part("final product");
  const Frame ended = close();
  if (ended.row == nullptr) return;
  const double bytes = ended.node ? 0 : moved_bytes(call, ended.given);
  ended.row->flops += std::max(0.0, ended.flops - ended.flops_below);
  ended.row->bytes += std::max(0.0, bytes - ended.bytes_below);
  if (frames_.empty()) return;
  frames_.back().flops_below += std::max(ended.flops, ended.flops_below);
  frames_.back().bytes_below += std::max(bytes, ended.bytes_below);
}

OperatorTable OperatorTrace::table() const {
  OperatorTable table = {.step_ns = step_ns_, .rows = {recording_}};
  for (const auto& [key, row] : rows_) table.rows.push_back(row);
  std::erase_if(table.rows, [](const OperatorRow& row) { return row.calls == 0 && row.ns == 0; });
  std::ranges::stable_sort(table.rows, std::ranges::greater(), &OperatorRow::ns);
  return table;
}

}  // namespace ddprun
