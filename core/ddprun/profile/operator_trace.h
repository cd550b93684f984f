// Records what a step calls on this thread, and how long each operator takes by itself.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/measure/operator_listener.h"
#include "ddprun/measure/phase.h"
#include "ddprun/profile/operator_table.h"
#include "ddprun/profile/operator_work.h"

namespace ddprun {

/// From construction on, on the thread that made it. Only what happens within Phase::step counts.
/// All time of it goes to one row: the innermost operator under way; where there is none, "between
/// operators" of the phase and the part of the model; what recording itself takes, "recording".
/// Softmax and what follows it have parts of their own within attention.
class OperatorTrace final : public PhaseListener, public PlaceListener, private OperatorListener {
 public:
  using Clock = std::function<std::int64_t()>;  ///< nanoseconds
  explicit OperatorTrace(Clock clock = now_ns);
  ~OperatorTrace() override;

  /// What was called so far, without a roofline. Outside of the step.
  OperatorTable table() const;

  void on_place(const MemoryPlace& place) override;
  void on_forward_again(bool begins) override;
  void begin(Phase phase) override;
  void end(Phase phase) override;

 private:
  /// A phase, or a call within it.
  struct Frame {
    const char* phase = "";
    OperatorRow* row = nullptr;  // null: outside of the step
    bool call = false;
    bool node = false;
    bool softmax = false;  // the part ends with it
    double flops = 0, flops_below = 0, bytes_below = 0;
    GivenTensors given = {};
  };
  class Recording;

  void on_begin(const at::RecordFunction& call, bool node) override;
  void on_end(const at::RecordFunction& call) override;
  void open_phase(const char* name, bool in_step);
  Frame close();
  /// Time between operators goes to where the thread is now.
  void settle();
  void enter_part(const char* part);
  bool in_step() const { return !frames_.empty() && frames_.back().row != nullptr; }
  OperatorRow* row_here(const char* phase, const std::string& name, const std::string& dtype = {});
  /// The time since the last call.
  void charge(OperatorRow* row);

  const Clock clock_;
  PhaseSubscription to_this_;
  MemoryPlace place_;
  std::vector<Frame> frames_;
  std::int64_t since_ns_ = 0, begin_ns_ = 0, step_ns_ = 0;
  OperatorRow recording_ = {.name = kRecording};
  /// By phase, unit, part, name, dtype.
  std::map<std::array<std::string, 5>, OperatorRow> rows_;
};

}  // namespace ddprun
