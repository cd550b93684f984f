// Hears of the operators that a thread calls: ATen's, autograd's nodes, and kernels that name
// themselves as ATen's do (RECORD_FUNCTION).
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ddprun/memory/memory_label.h"

namespace at {
struct RecordFunction;
}

namespace ddprun {

/// From construction to destruction on the thread that made it, one a thread at a time. While a
/// node of autograd runs, the thread's label is that of the forward that made the node; while a
/// parameter's gradient is accumulated, "gradient".
class OperatorListener {
 public:
  enum class Wants : std::uint8_t { outputs, inputs_and_outputs };
  explicit OperatorListener(Wants wants);
  virtual ~OperatorListener();
  OperatorListener(const OperatorListener&) = delete;
  OperatorListener& operator=(const OperatorListener&) = delete;

  /// Nodes that are made from now on belong there.
  void go_to(const MemoryPlace& place);

 protected:
  bool of_this_thread() const;

 private:
  class Hears;
  virtual void on_begin(const at::RecordFunction& call, bool node) = 0;
  /// Calls end in the reverse order of their beginning. After an exception there are no outputs.
  virtual void on_end(const at::RecordFunction& call) = 0;
  MemoryPlace place_of_current_node() const;

  std::uint64_t handle_ = 0;
  // A node has the number that was current when forward made it: from which number on, where.
  std::vector<std::pair<std::uint64_t, MemoryPlace>> places_;
};

/// "aten::_softmax" -> "softmax"
std::string_view plain_name(std::string_view name);

}  // namespace ddprun
