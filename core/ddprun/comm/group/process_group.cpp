// The process group: checks its arguments, hands collectives to the recording backend.
#include "ddprun/comm/group/process_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "ddprun/base/ranges.h"
#include "ddprun/comm/group/recording_backend.h"
#include "ddprun/comm/store/all_gather_object.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/comm/store/launch_board.h"
#include "ddprun/device/device.h"

namespace ddprun {

struct Work::State {
  c10::intrusive_ptr<c10d::Work> work;
};

void Work::wait() {
  if (state_) state_->work->wait();
}

namespace {

/// The tensor as the backend may write it: a leaf that requires grad must not be changed in place
/// under autograd.
at::Tensor writable(const at::Tensor& tensor) {
  return tensor.requires_grad() ? tensor.detach() : tensor;
}

}  // namespace

class ProcessGroup::Impl {
 public:
  /// c10d code may hold the recording backend for longer; the connections end here.
  ~Impl() { backend_->release(); }

  Work start(CollectiveArguments arguments) {
    arguments.awaited = true;
    auto work = backend_->start(std::move(arguments));
    return work ? Work(std::make_shared<Work::State>(Work::State{std::move(work)})) : Work();
  }

  /// What `gather`, a function of a name that was not used yet and of a time limit, returns.
  template <typename Gather>
  std::vector<std::string> exchange(const char* kind, const Gather& gather) {
    const std::string round = fmt::format("{}/{}", kind, rounds_++);
    LaunchBoard::announce(backend_->getSize(), kind, 0, "");
    try {
      return gather(round, backend_->getBackendOptions()->timeout);
    } catch (const std::exception& failure) {
      throw_comm_error(failure, {.what = "the ranks could not exchange a message through the store",
                                 .where = backend_->place() + ", " + round,
                                 .expected = "a message of every rank"});
    }
  }

  Device& device_;
  c10::intrusive_ptr<RecordingBackend> backend_;
  c10::intrusive_ptr<c10d::Store> store_;
  GroupOrigin origin_;
  /// By their ranks, in the order in which they were made.
  std::vector<std::pair<std::vector<int>, std::unique_ptr<ProcessGroup>>> subgroups_ = {};
  c10::intrusive_ptr<c10d::ProcessGroup> c10d_group_ = {};
  std::int64_t rounds_ = 0;  // of exchange()
};

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend,
                           c10::intrusive_ptr<c10d::Store> store, int workers, GroupOrigin origin,
                           Device& device)
    : impl_(new Impl{.device_ = device,
                     .backend_ = c10::make_intrusive<RecordingBackend>(
                         std::move(backend), workers, device, origin.place, origin.ranks_per_host),
                     .store_ = std::move(store),
                     .origin_ = origin}) {}
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const { return impl_->backend_->getRank(); }
int ProcessGroup::size() const { return impl_->backend_->getSize(); }
Device& ProcessGroup::device() const { return impl_->device_; }
std::string ProcessGroup::backend_name() const { return impl_->backend_->getBackendName(); }
const std::string& ProcessGroup::backend_reason() const { return impl_->origin_.reason; }
bool ProcessGroup::fell_back() const {
  return impl_->origin_.fell_back || std::ranges::any_of(impl_->subgroups_, [](const auto& each) {
           return each.second->fell_back();
         });
}
int ProcessGroup::ranks_per_host() const { return impl_->origin_.ranks_per_host; }

at::Tensor ProcessGroup::allocate(std::int64_t elements, const at::TensorOptions& options) {
  return impl_->backend_->allocateTensor(elements, options);
}

Work ProcessGroup::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label,
                              Await await) {
  return impl_->start({.kind = CollectiveKind::all_reduce,
                       .label = label,
                       .outputs = {writable(tensor)},
                       .op = to_c10d(op),
                       .await = await});
}

Work ProcessGroup::broadcast(const at::Tensor& tensor, int root, std::string_view label,
                             Await await) {
  return impl_->start({.kind = CollectiveKind::broadcast,
                       .label = label,
                       .outputs = {writable(tensor)},
                       .root = root,
                       .await = await});
}

Work ProcessGroup::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                                  std::string_view label, Await await) {
  return impl_->start({.kind = CollectiveKind::reduce_scatter,
                       .label = label,
                       .outputs = {writable(output)},
                       .input = writable(input),
                       .op = to_c10d(op),
                       .await = await});
}

Work ProcessGroup::all_gather(const at::Tensor& output, const at::Tensor& input,
                              std::string_view label, Await await) {
  return impl_->start({.kind = CollectiveKind::all_gather,
                       .label = label,
                       .outputs = {writable(output)},
                       .input = writable(input),
                       .await = await});
}

void ProcessGroup::barrier(std::string_view label) {
  impl_->start({.label = label, .await = Await::next}).wait();
  impl_->device_.synchronize();
}

std::vector<std::string> ProcessGroup::all_gather_object(const std::string& text) {
  if (impl_->origin_.peers_absent) return std::vector<std::string>(size(), text);
  return impl_->exchange("all_gather_object", [&](const std::string& round, auto timeout) {
    return ddprun::all_gather_object(*impl_->store_, round, rank(), size(), text, timeout);
  });
}

std::vector<std::string> ProcessGroup::gather_object(const std::string& text) {
  return impl_->exchange("gather_object", [&](const std::string& round, auto timeout) {
    return ddprun::gather_object(*impl_->store_, round, rank(), size(), text, timeout);
  });
}

c10::intrusive_ptr<c10d::ProcessGroup> ProcessGroup::as_c10d() {
  auto& group = impl_->c10d_group_;
  if (!group) {
    const auto type = c10d::ProcessGroup::strToBackendType(backend_name());
    group = c10::make_intrusive<c10d::ProcessGroup>(impl_->store_, rank(), size());
    group->setBackend(device().torch_device().type(), type,
                      c10::intrusive_ptr<c10d::Backend>(impl_->backend_));
    group->setDefaultBackend(type);
  }
  return group;
}

ProcessGroup& ProcessGroup::subgroup(const std::vector<int>& ranks) {
  const bool inside = !ranks.empty() && ranks.front() >= 0 && ranks.back() < size();
  const bool rising = std::ranges::adjacent_find(ranks, std::greater_equal<>()) == ranks.end();
  const bool mine = contains(ranks, rank());
  if (!inside || !rising || !mine || !impl_->origin_.subgroup) {
    throw CommError({.what = "these ranks cannot be a group",
                     .where = impl_->backend_->place() + ", subgroup()",
                     .got = fmt::format("[{}]", fmt::join(ranks, ", ")),
                     .expected = "some of the ranks, in order, each once, and this one among them",
                     .hint = "the strategy that asks for the group is at fault"});
  }
  if (static_cast<int>(ranks.size()) == size()) return *this;
  auto& known = impl_->subgroups_;
  const auto found =
      std::ranges::find_if(known, [&](const auto& each) { return each.first == ranks; });
  if (found != known.end()) return *found->second;
  known.emplace_back(ranks, impl_->origin_.subgroup(ranks));
  return *known.back().second;
}

std::vector<CollectiveRecord> ProcessGroup::take_records() {
  std::vector<CollectiveRecord> records = impl_->backend_->take_records();
  if (impl_->subgroups_.empty()) return records;
  for (const auto& [ranks, group] : impl_->subgroups_) {
    const auto more = group->take_records();
    records.insert(records.end(), more.begin(), more.end());
  }
  std::ranges::stable_sort(
      records, [](const auto& a, const auto& b) { return a.enqueue_ns < b.enqueue_ns; });
  return records;
}

std::vector<std::string> ProcessGroup::open_collectives() const {
  std::vector<std::string> open = impl_->backend_->open_collectives();
  for (const auto& [ranks, group] : impl_->subgroups_) {
    const std::vector<std::string> more = group->open_collectives();
    open.insert(open.end(), more.begin(), more.end());
  }
  return open;
}

void ProcessGroup::replay() {
  impl_->backend_->replay();
  for (const auto& [ranks, group] : impl_->subgroups_) group->replay();
}

void ProcessGroup::shutdown() {
  for (const auto& [ranks, group] : impl_->subgroups_) group->shutdown();
  barrier("shutdown");
  impl_->backend_->shutdown();
}

}  // namespace ddprun
