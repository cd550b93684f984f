// Records the memory of one step by what it is: what tensors are, and what the process has beside
// them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ddprun/measure/memory_account.h"
#include "ddprun/measure/memory_trace.h"
#include "ddprun/measure/phase.h"

namespace ddprun {

/// Of this rank. Use it on the training thread only. Make it before the run allocates anything. The
/// step that is recorded is slower than others.
class MemoryRecorder final : public PhaseListener {
 public:
  /// Where tensors live: who counts their blocks, and, if that is not this process, what its
  /// allocator and driver say now.
  using DeviceLook = std::function<AllocatorMemory()>;
  MemoryRecorder(std::shared_ptr<MemorySource> source, DeviceLook device);
  ~MemoryRecorder() override;

  void begin_step();
  /// Ends all recording. The step had phases.
  MemoryAccount end_step();

  void begin(Phase phase) override;
  void end(Phase phase) override;

 private:
  void look(const std::string& name);

  const DeviceLook device_;
  const ResidentMemory before_;
  MemoryTrace trace_;
  std::optional<PhaseSubscription> to_trace_, to_this_;
  bool in_step_ = false;
  std::vector<MemoryLook> looks_;
};

}  // namespace ddprun
