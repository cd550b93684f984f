// The memory of a rank on device meta, phase by phase.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ddprun/measure/phase.h"
#include "ddprun/memory/dry_memory.h"
#include "ddprun/memory/memory_label.h"
#include "ddprun/result/account.h"

namespace ddprun {

/// Notes, of the thread that makes it, between which changes of memory phases lay. One at a time.
class DryPhases final : public PhaseListener, public PlaceListener {
 public:
  /// `memory` outlives it.
  explicit DryPhases(const DryMemory& memory);
  ~DryPhases() override;
  DryPhases(const DryPhases&) = delete;
  DryPhases& operator=(const DryPhases&) = delete;

  /// The step that peaks() has begins here.
  void watch() { watched_from_ = memory_.changes().size(); }
  /// The peaks of set-up and of the phases of the watched step, each at the moment of the highest
  /// one if it came several times.
  std::vector<PhaseAccount> peaks() const;

  void begin(Phase phase) override;
  void end(Phase phase) override;
  void on_place(const MemoryPlace&) override {}
  void on_forward_again(bool begins) override;

 private:
  /// Its changes are [begin, end).
  struct Span {
    Phase phase;
    bool again = false;
    std::size_t begin = 0, end = 0;
  };
  void open(Span span);
  void close();
  MemoryCategory category(const DryMemory::Block& block) const;

  const DryMemory& memory_;
  std::size_t watched_from_ = 0;
  std::vector<Span> spans_;                                // in the order of their beginning
  std::vector<std::size_t> open_;                          // places in spans_, the innermost last
  std::vector<std::pair<std::size_t, std::size_t>> from_;  // change -> the innermost span + 1
};

}  // namespace ddprun
