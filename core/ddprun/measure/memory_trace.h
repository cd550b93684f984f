// Records what a rank's tensors are in one step: each block with its time, phase, unit, operation,
// shape.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ddprun/measure/phase.h"
#include "ddprun/memory/memory_category.h"
#include "ddprun/memory/memory_label.h"
#include "ddprun/memory/memory_source.h"

namespace ddprun {

/// A phase of the recorded step, or, within backward, a part of the forward that is computed again.
struct MemorySpan {
  Phase phase = Phase::step;
  bool again = false;
  std::int64_t begin_ns = 0, end_ns = 0;  ///< of MemoryTrace::time_ns()
  int end_event = 0;                      ///< behind its last one

  const char* name() const { return again ? "forward again" : to_string(phase); }
};

struct MemoryBlock {
  const void* address = nullptr;
  std::int64_t bytes = 0;
  bool lent = false;  ///< it lies within another, which counts
  std::int64_t born_ns = 0;
  std::int64_t died_ns = 0;                  ///< 0: it outlived the step
  int born_event = -1;                       ///< -1: before the step
  int died_event = -1;                       ///< -1: it outlived the step
  int born_in = -1, died_in = -1;            ///< the innermost span; -1: none
  const char* before = "";                   ///< the phase in which it was made, if before the step
  std::size_t thread = 0;                    ///< that made it, as a number
  std::optional<MemoryCategory> scope = {};  ///< what its maker said it is for
  MemoryPlace place = {};
  std::string operation = {};  ///< of the place; where ATen made the block, with its operator
  std::string shape = {};      ///< "512 x 2560"; empty: not known
  std::string dtype = {};
  std::int64_t described_bytes = 0;  ///< of the tensor that has this shape

  /// Of memory: what it adds.
  std::int64_t counted_bytes() const { return lent ? 0 : bytes; }
  bool alive_at(int event) const {
    return born_event < event && (died_event < 0 || died_event >= event);
  }
};

struct MemoryEvent {
  std::int64_t time_ns = 0;
  int block = 0;
  bool allocated = false;
};

/// What was recorded. Numbers of blocks, spans and events are places in these lists.
struct RecordedMemory {
  std::vector<MemorySpan> spans;    ///< in the order of their beginning; the first is the step
  std::vector<MemoryBlock> blocks;  ///< first those that were there when the step began
  std::vector<MemoryEvent> events;
};

/// Follows the blocks that a source counts for the calling thread. From its making on it knows
/// which blocks there are; from begin_step() to end_step() it keeps all that happens. Training
/// thread.
class MemoryTrace final : public MemoryListener, public PlaceListener, public PhaseListener {
 public:
  explicit MemoryTrace(std::shared_ptr<MemorySource> source);
  ~MemoryTrace() override;
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;

  /// ATen's operators and autograd's nodes are listened to in between, which makes the step slower.
  void begin_step();
  /// Returns what happened. Nothing is recorded any more.
  RecordedMemory end_step();
  int events() const;
  /// The time of what happens now: now_ns(), without what was left out.
  std::int64_t time_ns() const;
  /// Leaves that out of all times to come: what was no part of the step.
  void leave_out(std::int64_t ns) { left_out_ns_ += ns; }

  void on_allocated(const void* block, std::int64_t bytes, bool lent) override;
  void on_released(const void* block) override;
  void on_place(const MemoryPlace& place) override;
  void on_forward_again(bool begins) override;
  void begin(Phase phase) override;
  void end(Phase phase) override;

 private:
  class Operators;
  int add_event(int block, bool allocated, std::int64_t time_ns);
  void open_span(MemorySpan span);
  void close_span();
  void release(int block);
  std::string operation(const MemoryPlace& place) const;

  const std::shared_ptr<MemorySource> source_;
  std::atomic<std::int64_t> left_out_ns_ = 0;
  mutable std::mutex mutex_;  // blocks may be released on other threads
  bool in_step_ = false;
  RecordedMemory history_;
  std::unordered_map<const void*, int> living_;  // address -> block
  std::vector<int> free_;                        // places of blocks that died before the step
  std::vector<int> open_;                        // spans, the innermost last
  std::vector<const char*> before_;              // phases before the step
  std::unique_ptr<Operators> operators_;
};

}  // namespace ddprun
