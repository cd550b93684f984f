// Listens to the allocator, to phases, to labels, and to ATen and autograd.
#include "ddprun/measure/memory_trace.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <array>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/base/ranges.h"
#include "ddprun/measure/operator_listener.h"

namespace ddprun {

namespace {

/// Operators that give memory for what another computes.
constexpr std::array<std::string_view, 10> kGiveMemory = {
    "empty",     "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    "new_zeros", "zeros",      "zeros_like",    "resize_",   "zero_"};

std::string shape_of(const at::Tensor& tensor) { return list_text(tensor.sizes(), " x "); }

}  // namespace

/// The operators and autograd's nodes under way on this thread.
class MemoryTrace::Operators final : public OperatorListener {
 public:
  explicit Operators(MemoryTrace& trace)
      : OperatorListener(OperatorListener::Wants::outputs), trace_(trace) {}

  using OperatorListener::of_this_thread;

  /// The innermost operator that computes something; within a node, of that node alone. Where there
  /// is none: the node, if it is `wanted`.
  std::string name(bool node_wanted) const {
    for (auto each = running_.rbegin(); each != running_.rend(); ++each) {
      if (each->node) return node_wanted ? each->name : std::string();
      if (!contains(kGiveMemory, each->name)) return each->name;
    }
    return {};
  }

 private:
  struct Running {
    std::string name;
    bool node;
  };

  void on_begin(const at::RecordFunction& call, bool node) override {
    running_.push_back({std::string(plain_name(call.name())), node});
  }

  void on_end(const at::RecordFunction& call) override {
    if (running_.empty()) return;
    running_.pop_back();
    for (const c10::IValue& output : call.outputs()) {
      if (output.isTensor()) describe(output.toTensor());
    }
  }

  /// The largest tensor in a block says what is in it; the first of them.
  void describe(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const std::lock_guard lock(trace_.mutex_);
    const auto found = trace_.living_.find(tensor.storage().data());
    if (found == trace_.living_.end()) return;
    MemoryBlock& block = trace_.history_.blocks[found->second];
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    if (bytes <= block.described_bytes || bytes > block.bytes) return;
    block.described_bytes = bytes;
    block.shape = shape_of(tensor);
    block.dtype = c10::getDtypeNames(tensor.scalar_type()).first;
  }

  MemoryTrace& trace_;
  std::vector<Running> running_;
};

MemoryTrace::MemoryTrace(std::shared_ptr<MemorySource> source) : source_(std::move(source)) {
  TORCH_CHECK(source_ != nullptr, "nobody counts here");
  source_->tell(this);
}

MemoryTrace::~MemoryTrace() {
  source_->tell(nullptr);
  if (in_step_) PlaceListener::set(nullptr);
}

std::int64_t MemoryTrace::time_ns() const { return now_ns() - left_out_ns_; }

int MemoryTrace::events() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(history_.events.size());
}

void MemoryTrace::begin_step() {
  const std::lock_guard lock(mutex_);
  // Those that died have left gaps.
  std::vector<MemoryBlock> alive;
  for (auto& [address, number] : living_) {
    alive.push_back(std::move(history_.blocks[number]));
    number = static_cast<int>(alive.size()) - 1;
  }
  free_.clear();
  history_ = {.spans = {}, .blocks = std::move(alive), .events = {}};
  operators_ = std::make_unique<Operators>(*this);
  PlaceListener::set(this);
  in_step_ = true;
}

RecordedMemory MemoryTrace::end_step() {
  PlaceListener::set(nullptr);
  operators_.reset();
  source_->tell(nullptr);
  const std::lock_guard lock(mutex_);
  in_step_ = false;
  living_.clear();
  return std::move(history_);
}

int MemoryTrace::add_event(int block, bool allocated, std::int64_t time_ns) {
  history_.events.push_back({time_ns, block, allocated});
  return static_cast<int>(history_.events.size()) - 1;
}

std::string MemoryTrace::operation(const MemoryPlace& place) const {
  const bool known = place.operation != nullptr;
  const std::string by =
      operators_ && operators_->of_this_thread() ? operators_->name(!known) : std::string();
  if (!known) return by;
  return by.empty() ? place.operation : fmt::format("{}: {}", place.operation, by);
}

void MemoryTrace::on_allocated(const void* address, std::int64_t bytes, bool lent) {
  MemoryBlock block{.address = address, .bytes = bytes, .lent = lent, .born_ns = time_ns()};
  block.thread = std::hash<std::thread::id>{}(std::this_thread::get_id());
  if (const MemoryCategory* const scope = MemoryScope::current()) block.scope = *scope;
  block.place = MemoryLabel::current();
  const std::lock_guard lock(mutex_);
  // A source may not have heard of a release.
  if (const auto before = living_.find(address); before != living_.end()) release(before->second);
  int number = static_cast<int>(history_.blocks.size());
  if (in_step_) {
    block.operation = operation(block.place);
    block.born_event = add_event(number, true, block.born_ns);
    if (!open_.empty()) block.born_in = open_.back();
  } else if (!before_.empty()) {
    block.before = before_.back();
  }
  if (!in_step_ && !free_.empty()) {
    number = free_.back();
    free_.pop_back();
    history_.blocks[number] = std::move(block);
  } else {
    history_.blocks.push_back(std::move(block));
  }
  living_[address] = number;
}

void MemoryTrace::on_released(const void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = living_.find(address);
  if (found == living_.end()) return;  // it was there before this object
  const int number = found->second;
  living_.erase(found);
  release(number);
}

void MemoryTrace::release(int number) {
  if (!in_step_) {
    free_.push_back(number);
    return;
  }
  MemoryBlock& block = history_.blocks[number];
  block.died_ns = time_ns();
  block.died_event = add_event(number, false, block.died_ns);
  if (!open_.empty()) block.died_in = open_.back();
}

void MemoryTrace::on_place(const MemoryPlace& place) {
  if (operators_) operators_->go_to(place);
}

void MemoryTrace::open_span(MemorySpan span) {
  const std::lock_guard lock(mutex_);
  span.begin_ns = time_ns();
  open_.push_back(static_cast<int>(history_.spans.size()));
  history_.spans.push_back(span);
}

void MemoryTrace::close_span() {
  const std::lock_guard lock(mutex_);
  if (open_.empty()) return;
  MemorySpan& span = history_.spans[open_.back()];
  open_.pop_back();
  span.end_ns = time_ns();
  span.end_event = static_cast<int>(history_.events.size());
}

void MemoryTrace::on_forward_again(bool begins) {
  if (begins) {
    open_span({.phase = Phase::backward, .again = true});
  } else {
    close_span();
  }
}

void MemoryTrace::begin(Phase phase) {
  if (in_step_) {
    open_span({.phase = phase});
  } else {
    before_.push_back(to_string(phase));
  }
}

void MemoryTrace::end(Phase) {
  if (in_step_) {
    close_span();
  } else if (!before_.empty()) {
    before_.pop_back();
  }
}

}  // namespace ddprun
