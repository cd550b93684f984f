// Records collectives: when each was called, got a thread, was done, and was waited for.
#include "ddprun/comm/group/recording_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ddprun/base/text.h"
#include "ddprun/comm/store/comm_failure.h"
#include "ddprun/comm/store/launch_board.h"

namespace ddprun {

namespace {

/// A worker that is still busy.
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::string shape_of(const at::Tensor& tensor) {
  std::string text = c10::toString(tensor.scalar_type());
  text += " tensor of " + std::to_string(tensor.numel()) + " elements";
  return tensor.is_contiguous() ? text : text + ", not contiguous";
}

/// "rank 1 of 2, all_reduce 'gradients'"
std::string describe(const std::string& place, const CollectiveEntry& entry) {
  return place + ", " + name_of(entry.record.kind) + " '" + entry.record.label + "'";
}

}  // namespace

bool RecordedWork::wait(std::chrono::milliseconds timeout) {
  TORCH_CHECK(timeout == kNoTimeout,
              "a recorded collective ends by its backend's timeout, not by wait's");
  Mark not_waited = 0;
  const bool first = entry_->wait_begin.compare_exchange_strong(not_waited, device_.mark());
  {
    const LaunchBoard::Wait waiting;
    if (inner_) inner_->help();
    getFuture()->wait();
  }
  if (first) {
    entry_->wait_end = device_.mark();
    entry_->release_span();
  }
  return FutureWork::wait(timeout);
}

RecordedWork::~RecordedWork() {
  if (entry_->wait_begin == 0) entry_->release_span();
}

RecordingBackend::RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner, int workers,
                                   Device& device, const std::string& group, int ranks_per_host)
    : CollectiveBackend(inner->getRank(), inner->getSize(), inner->getBackendName()),
      inner_(std::move(inner)),
      place_(group + "rank " + std::to_string(inner_->getRank()) + " of " +
             std::to_string(inner_->getSize())),
      ranks_per_host_(ranks_per_host),
      device_(device),
      worker_free_ns_(static_cast<std::size_t>(std::max(workers, 1)), 0) {}

c10d::Backend& RecordingBackend::inner() const {
  if (inner_) return *inner_;
  throw CommError({.what = "the process group is shut down",
                   .where = place_,
                   .got = "a collective after shutdown()",
                   .expected = "collectives before it only",
                   .hint = "shut the group down when all work is done"});
}

void RecordingBackend::check(const CollectiveArguments& arguments) const {
  const at::Tensor& input = arguments.input;
  const bool scatters = arguments.kind == CollectiveKind::reduce_scatter;
  // Of two tensors, one is n slices of the size of the other; each tensor of a list is one slice.
  const int n = input.defined() && arguments.outputs.size() == 1 ? getSize() : 1;
  for (const at::Tensor& output : arguments.outputs) {
    const at::Tensor& other = input.defined() ? input : output;
    const at::Tensor& whole = scatters ? other : output;
    const at::Tensor& slice = scatters ? output : other;
    if (whole.is_contiguous() && slice.is_contiguous() &&
        whole.device().type() == device_.torch_device().type() &&
        whole.device() == slice.device() && whole.scalar_type() == slice.scalar_type() &&
        whole.numel() == slice.numel() * n) {
      continue;
    }
    throw CommError(
        {.what = "a collective was called with tensors that it cannot take",
         .where =
             place_ + ", " + name_of(arguments.kind) + " '" + std::string(arguments.label) + "'",
         .got = n == 1 ? shape_of(whole) : shape_of(whole) + "; slice: " + shape_of(slice),
         .expected = n == 1 ? "a contiguous tensor"
                            : "contiguous tensors of one type, one of them " + std::to_string(n) +
                                  " times the size of the other",
         .hint = "contiguous() before the call; of a strategy: the buffers' ranges fit"});
  }
}

c10::intrusive_ptr<c10d::Work> RecordingBackend::start(CollectiveArguments arguments) {
  check(arguments);
  auto entry = std::make_shared<CollectiveEntry>();
  CollectiveRecord& record = entry->record;
  record.kind = arguments.kind;
  record.bytes = arguments.bytes();
  record.ranks = getSize();
  record.ranks_per_host = ranks_per_host_;
  record.label = arguments.label;
  entry->awaited = arguments.awaited;
  LaunchBoard::announce(getSize(), name_of(record.kind), record.bytes, record.label);
  entry->span.emplace(name_of(record.kind), record.label, record.bytes);
  entry->enqueue = device_.mark();
  const bool at_once = arguments.await == Await::next && !device_.works_behind();
  arguments.began_ns = {entry, &entry->began_ns};
  c10::intrusive_ptr<c10d::Work> started;
  try {
    std::optional<LaunchBoard::Wait> waiting;
    if (at_once) waiting.emplace(device_.time_of(entry->enqueue));
    started = start_on(inner(), std::move(arguments));
  } catch (const std::exception& failure) {
    throw_comm_error(failure,
                     {.what = "a collective could not be started",
                      .where = describe(place_, *entry),
                      .expected = "a backend that takes the tensors, and ranks that live"});
  }
  keep(entry);
  if (!started) {
    end_at_once(*entry);
    return {};
  }
  // Runs on the backend's thread when the operation is over (or here if it already is); for a GPU
  // here, on a stream that waits for the operation.
  const auto finish = [entry, place = place_, &device = device_](c10::ivalue::Future& operation) {
    entry->end.store(device.mark(), std::memory_order_release);
    LaunchBoard::note_progress();
    entry->release_span();
    try {
      return operation.value();
    } catch (const std::exception& failure) {
      throw_comm_error(failure, {.what = "a collective failed",
                                 .where = describe(place, *entry),
                                 .expected = "the same call on every rank, in time"});
    }
  };
  const auto done = started->getFuture();
  return c10::make_intrusive<RecordedWork>(
      device_, std::move(entry),
      c10::intrusive_ptr<FutureWork>::reclaim_copy(dynamic_cast<FutureWork*>(started.get())),
      done->then(finish, done->elementType()));
}

void RecordingBackend::end_at_once(CollectiveEntry& entry) {
  const Mark end = device_.mark();
  entry.wait_begin.store(entry.enqueue, std::memory_order_relaxed);
  entry.wait_end.store(end, std::memory_order_relaxed);
  entry.end.store(end, std::memory_order_release);
  entry.span.reset();
  LaunchBoard::note_progress(device_.time_of(end));
}

void RecordingBackend::keep(const std::shared_ptr<CollectiveEntry>& entry) {
  if (device_.capturing()) {
    captured_.push_back(entry);
    return;
  }
  if (entries_.size() >= kKeptRecords) {  // nobody takes them
    done_.clear();
    collect();
  }
  entries_.push_back(entry);
}

void RecordingBackend::shutdown() {
  try {
    inner().shutdown();
  } catch (const std::exception& failure) {
    throw_comm_error(failure, {.what = "the group could not end in order",
                               .where = place_,
                               .expected = "every rank at the end of the run"});
  }
  release();
}

std::vector<CollectiveRecord> RecordingBackend::take_records() {
  collect();
  return std::exchange(done_, {});
}

std::vector<std::string> RecordingBackend::open_collectives() const {
  std::vector<std::string> open;
  for (const auto& entry : entries_) {
    const bool ended = entry->end.load(std::memory_order_acquire) != 0;
    const bool left = entry->awaited && entry->wait_begin == 0;
    if (entry->taken || (ended && !left)) continue;
    const CollectiveRecord& record = entry->record;
    open.push_back(fmt::format("{} '{}' of {} bytes, {}", name_of(record.kind), record.label,
                               with_thousands(record.bytes),
                               left ? "which nobody waited for" : "under way"));
  }
  return open;
}

void RecordingBackend::replay() {
  for (const auto& captured : captured_) {
    auto entry = std::make_shared<CollectiveEntry>();
    entry->record = captured->record;
    entry->enqueue = captured->enqueue;
    entry->end = captured->end.load();
    entry->wait_begin = captured->wait_begin.load();
    entry->wait_end = captured->wait_end.load();
    entries_.push_back(std::move(entry));
  }
}

std::int64_t RecordingBackend::time_or_zero(Mark mark) const {
  return mark == 0 ? 0 : device_.time_of(mark);
}

void RecordingBackend::collect() {
  // The backend's threads take collectives in order, each when it is free: which one took which,
  // and so when it began if the backend does not say it, follows from the ends. A collective under
  // way keeps its thread; those behind it can be done all the same.
  std::vector<std::int64_t> free_ns = worker_free_ns_;
  bool all_before_done = true;
  std::size_t finished = 0;
  for (const auto& entry : entries_) {
    const auto worker = std::ranges::min_element(free_ns);
    if (*worker == kNever) break;
    const Mark end = entry->end.load(std::memory_order_acquire);
    const std::int64_t enqueue_ns = device_.time_of(entry->enqueue);
    const std::int64_t start_ns = std::max({enqueue_ns, *worker, entry->began_ns.load()});
    const std::int64_t end_ns = end == 0 ? 0 : device_.time_of(end);
    *worker = end == 0 ? kNever : end_ns;
    if (end != 0 && !entry->taken) {
      CollectiveRecord record = entry->record;
      record.enqueue_ns = enqueue_ns;
      record.start_ns = std::min(start_ns, end_ns);
      record.end_ns = end_ns;
      record.wait_begin_ns = time_or_zero(entry->wait_begin);
      record.wait_end_ns = time_or_zero(entry->wait_end);
      done_.push_back(std::move(record));
      entry->taken = true;
    }
    all_before_done = all_before_done && end != 0;
    if (all_before_done) {
      ++finished;
      worker_free_ns_ = free_ns;
    }
  }
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(finished));
}

at::Tensor RecordingBackend::allocateTensor(long elements, at::TensorOptions options) {
  LaunchBoard::announce(getSize(), "allocate", elements * options.dtype().itemsize(), "");
  const LaunchBoard::Wait waiting;
  try {
    return inner().allocateTensor(elements, options);
  } catch (const std::exception& failure) {
    throw_comm_error(failure, {.what = "the group could not allocate memory for its collectives",
                               .where = place_ + ", " + std::to_string(elements) + " elements of " +
                                        std::string(options.dtype().name()),
                               .expected = "memory for the parameters and gradients of all ranks",
                               .hint = "a smaller model, or fewer ranks on this host"});
  }
}

}  // namespace ddprun
