// Device meta, whose time is how much was computed, and what a step needs and PyTorch lacks there:
// operators, an attention, and a group whose peers are not there.
//
// Family: dry_device.cpp dry_operators.cpp dry_attention.cpp absent_peers.cpp
#pragma once

#include <memory>
#include <vector>

#include "ddprun/comm/group/comm_config.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/operator_listener.h"
#include "ddprun/profile/operator_work.h"
#include "ddprun/result/account.h"

namespace ddprun {

class Attention;
class ProcessGroup;

/// Its marks are numbers in the order of their making, and time_of() such a mark is that number:
/// what a CollectiveRecord has for times. From its making on it counts what operators would compute
/// on this thread, ATen's and kernels that name themselves. One a thread at a time.
class DryDevice final : public Device, private OperatorListener {
 public:
  DryDevice() : OperatorListener(Wants::inputs_and_outputs) {}

  /// Of all operators that have ended.
  const ComputeWork& work() const { return work_; }
  /// What it was at a mark.
  const ComputeWork& work_at(Mark mark) const { return marks_[static_cast<std::size_t>(mark) - 1]; }

  c10::Device torch_device() const override { return c10::kMeta; }
  Mark mark() override;
  std::int64_t time_of(Mark mark) override { return mark; }
  void synchronize() override {}

 private:
  /// A call that is under way, and what the calls within it moved.
  struct Call {
    bool node = false;  // of autograd, which computes nothing itself
    GivenTensors given = {};
    double bytes_below = 0;
  };
  void on_begin(const at::RecordFunction& call, bool node) override;
  void on_end(const at::RecordFunction& call) override;

  std::vector<Call> calls_;
  ComputeWork work_;
  std::vector<ComputeWork> marks_;
};

/// As long as it lives, this process has them: look-ups of rows and their gradient, the scale of a
/// loss, collectives of c10d code, and autocast (whose own rules pass tensors of device meta by;
/// AutocastGuard switches on what is registered here). For a process of its own.
std::shared_ptr<void> dry_operators();

/// Allocates what `of` says that it takes (Attention::memory()), and computes nothing: kernels of a
/// plugin's own cannot take tensors of device meta. Its output lies as (batch, time, heads,
/// head_dim), as that of fused kernels of attention does. forward() throws Error if the memory is
/// not known.
std::shared_ptr<Attention> dry_attention(std::shared_ptr<Attention> of);

/// Rank `rank` of `size`, `ranks_per_host` of them on its host. Every collective is done at once,
/// moves nothing, and is recorded; what ranks tell each other is what this rank says. Subgroups are
/// such groups too. What reduce-scatters of `backend` hold is there until they are waited for.
/// `device`: of the tensors; it outlives the group.
std::unique_ptr<ProcessGroup> group_of_absent_peers(int rank, int size, int ranks_per_host,
                                                    BackendKind backend, Device& device);

}  // namespace ddprun
