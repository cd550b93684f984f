// What a step would send, without sending: a backend whose collectives are over when they begin.
#include "ddprun/dry/dry_device.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>

#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/group/process_group.h"

namespace ddprun {

namespace {

class AbsentPeers final : public CollectiveBackend {
 public:
  AbsentPeers(int rank, int size) : CollectiveBackend(rank, size, "absent") {}

  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override {
    auto done =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(std::move(arguments.outputs)));
    return c10::make_intrusive<FutureWork>(std::move(done));
  }

  at::Tensor allocateTensor(long elements, at::TensorOptions options) override {
    return at::zeros({elements}, options);
  }

  void shutdown() override {}
};

}  // namespace

std::unique_ptr<ProcessGroup> group_of_absent_peers(int rank, int size, int ranks_per_host,
                                                    Device& device) {
  const auto subgroup = [rank, ranks_per_host, &device](const std::vector<int>& ranks) {
    const auto mine = std::ranges::find(ranks, rank) - ranks.begin();
    const auto here = std::ranges::count_if(
        ranks, [&](int each) { return each / ranks_per_host == rank / ranks_per_host; });
    return group_of_absent_peers(static_cast<int>(mine), static_cast<int>(ranks.size()),
                                 static_cast<int>(here), device);
  };
  return std::make_unique<ProcessGroup>(c10::make_intrusive<AbsentPeers>(rank, size),
                                        c10::make_intrusive<c10d::HashStore>(), 1,
                                        GroupOrigin{.reason = "its peers are not there",
                                                    .ranks_per_host = ranks_per_host,
                                                    .subgroup = subgroup,
                                                    .peers_absent = true},
                                        device);
}

}  // namespace ddprun
