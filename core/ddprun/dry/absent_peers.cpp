// What a step would send, without sending: a backend whose collectives are over when they begin.
#include "ddprun/dry/dry_device.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/group/process_group.h"

namespace ddprun {

namespace {

/// What a reduce-scatter over the network holds beside its tensors until it is over, beside its
/// input: what comes over gloo is not added up yet, nor are the sums of a host.
double held_copies(BackendKind backend, int size, int ranks_per_host) {
  if (backend == BackendKind::gloo) return 1;
  const bool hierarchical =
      backend == BackendKind::automatic || backend == BackendKind::hierarchical;
  if (!hierarchical || ranks_per_host == size) return 0;
  return ranks_per_host == 1 ? 1 : 2.0 / ranks_per_host;
}

/// Over when it begins, and lets go of `held` when somebody waits: a network has no hurry.
class HeldWork final : public FutureWork {
 public:
  HeldWork(c10::intrusive_ptr<c10::ivalue::Future> done, at::Tensor held)
      : FutureWork(std::move(done)), held_(std::move(held)) {}
  void help() override { held_.reset(); }

 private:
  at::Tensor held_;
};

class AbsentPeers final : public CollectiveBackend {
 public:
  AbsentPeers(int rank, int size, double held_copies)
      : CollectiveBackend(rank, size, "absent"), held_copies_(held_copies) {}

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override {
    at::Tensor held;
    if (arguments.kind == CollectiveKind::reduce_scatter && held_copies_ > 0) {
      const double elements = held_copies_ * static_cast<double>(arguments.input.numel());
      held = at::empty({static_cast<std::int64_t>(elements)}, arguments.input.options());
    }
    auto done =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(std::move(arguments.outputs)));
    return c10::make_intrusive<HeldWork>(std::move(done), std::move(held));
  }

  at::Tensor allocateTensor(long elements, at::TensorOptions options) override {
    return at::zeros({elements}, options);
  }

  void shutdown() override {}

 private:
  const double held_copies_;
};

}  // namespace

std::unique_ptr<ProcessGroup> group_of_absent_peers(int rank, int size, int ranks_per_host,
                                                    BackendKind backend, Device& device) {
  const auto subgroup = [rank, ranks_per_host, backend, &device](const std::vector<int>& ranks) {
    const auto mine = std::ranges::find(ranks, rank) - ranks.begin();
    const auto here = std::ranges::count_if(
        ranks, [&](int each) { return each / ranks_per_host == rank / ranks_per_host; });
    return group_of_absent_peers(static_cast<int>(mine), static_cast<int>(ranks.size()),
                                 static_cast<int>(here), backend, device);
  };
  return std::make_unique<ProcessGroup>(
      c10::make_intrusive<AbsentPeers>(rank, size, held_copies(backend, size, ranks_per_host)),
      c10::make_intrusive<c10d::HashStore>(), 1,
      GroupOrigin{.reason = "its peers are not there",
                  .ranks_per_host = ranks_per_host,
                  .subgroup = subgroup,
                  .peers_absent = true},
      device);
}

}  // namespace ddprun
