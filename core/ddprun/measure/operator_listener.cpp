// A callback of ATen's for the thread, and the places of autograd's nodes.
#include "ddprun/measure/operator_listener.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>

namespace ddprun {

namespace {

thread_local OperatorListener* listening = nullptr;

struct Entered final : at::ObserverContext {
  std::optional<MemoryLabel> label;
};

}  // namespace

class OperatorListener::Hears {
 public:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
    auto entered = std::make_unique<Entered>();
    if (listening == nullptr) return entered;
    const bool node = call.scope() == at::RecordScope::BACKWARD_FUNCTION;
    if (node || is_engine(call)) entered->label.emplace(listening->place_of_current_node());
    listening->on_begin(call, node);
    return entered;
  }

  /// What the engine does around a node: it adds gradients up and brings them into shape.
  static bool is_engine(const at::RecordFunction& call) {
    return std::string_view(call.name()).starts_with("autograd::engine");
  }

  static void end(const at::RecordFunction& call, at::ObserverContext* context) {
    if (listening != nullptr) listening->on_end(call);
    static_cast<Entered*>(context)->label.reset();
  }
};

OperatorListener::OperatorListener(Wants wants) {
  TORCH_CHECK(listening == nullptr, "one listener to operators a thread at a time");
  listening = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Hears::begin, &Hears::end)
          .needsInputs(wants == Wants::inputs_and_outputs)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperatorListener::~OperatorListener() {
  at::removeCallback(handle_);
  listening = nullptr;
}

bool OperatorListener::of_this_thread() const { return listening == this; }

void OperatorListener::go_to(const MemoryPlace& place) {
  const std::uint64_t next = at::sequence_number::peek();
  if (!places_.empty() && places_.back().first == next) places_.pop_back();
  places_.emplace_back(next, place);
}

MemoryPlace OperatorListener::place_of_current_node() const {
  const auto node = torch::autograd::get_current_node();
  if (!node) return {};
  const std::uint64_t made = node->sequence_nr();
  if (made == std::numeric_limits<std::uint64_t>::max()) return {.operation = "gradient"};
  const auto behind =
      std::upper_bound(places_.begin(), places_.end(), made,
                       [](std::uint64_t number, const auto& each) { return number < each.first; });
  return behind == places_.begin() ? MemoryPlace{} : std::prev(behind)->second;
}

std::string_view plain_name(std::string_view name) {
  const std::size_t at = name.rfind("::");
  if (at != std::string_view::npos) name.remove_prefix(at + 2);
  while (name.starts_with('_')) name.remove_prefix(1);
  return name;
}

}  // namespace ddprun
