// A c10d::Backend that passes each collective on to another backend, and records when it ran.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/profiler_range.h"

namespace ddprun {

/// A collective, from its call until its record is taken. The backend's thread and the thread that
/// waits write the atomics; the rest is fixed at the call. Marks become times when the record is
/// taken.
struct CollectiveEntry {
  /// Without its times.
  CollectiveRecord record;
  bool awaited = false;  ///< someone has to wait for it
  /// The call. On a GPU, the mark is behind the work that computes the tensors.
  Mark enqueue = 0;
  std::atomic<std::int64_t> began_ns = 0;  ///< as the backend says, if it does
  /// The result was there; 0: not yet, or on a GPU not yet enqueued.
  std::atomic<Mark> end = 0;
  std::atomic<Mark> wait_begin = 0;
  std::atomic<Mark> wait_end = 0;
  bool taken = false;

  /// What a profiler shows of the collective. It begins at the call. It ends when the collective is
  /// done (on a GPU: enqueued) and, if someone waits, when the first wait is over.
  std::optional<ProfilerSpan> span;
  /// Called twice: when the operation is done, and when the first wait is over or none can come.
  void release_span() {
    if (--span_holders == 0) span.reset();
  }
  std::atomic<int> span_holders = 2;
};

/// The c10d::Work of a recorded collective. Its future completes after the record is complete, and
/// carries a failure as CommError. So code that waits for the future alone (c10d::Reducer) finds
/// the record complete, and throws our error.
class RecordedWork final : public FutureWork {
 public:
  /// `inner`: the wrapped backend's, if it is a FutureWork. `future`: what follows from its own.
  RecordedWork(Device& device, std::shared_ptr<CollectiveEntry> entry,
               c10::intrusive_ptr<FutureWork> inner, c10::intrusive_ptr<c10::ivalue::Future> future)
      : FutureWork(std::move(future)),
        device_(device),
        entry_(std::move(entry)),
        inner_(std::move(inner)) {}
  ~RecordedWork() override;

  /// Waits for the result; on a GPU, the current stream waits instead of the caller. The times of
  /// the first call are recorded. No `timeout` may be given: the backend's own ends the wait.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;

 private:
  Device& device_;
  std::shared_ptr<CollectiveEntry> entry_;
  c10::intrusive_ptr<FutureWork> inner_;
};

/// Wraps another backend. Everything that a ProcessGroup sends goes through start(): what its own
/// methods call, and what c10d code calls that holds this object as its backend.
class RecordingBackend final : public CollectiveBackend {
 public:
  /// `inner`: its Works must supply futures. A future completes on the CPU when the result is
  /// there, and on a GPU when the operation is enqueued. `workers`: how many collectives `inner`
  /// runs at a time. `device`: of the tensors; it outlives this object. `group`: what place() says
  /// before the rank's number. `ranks_per_host`: what records say.
  RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner, int workers, Device& device,
                   const std::string& group = {}, int ranks_per_host = 1);

  /// Records that are kept if nobody takes them: the last 65,536 at least.
  static constexpr std::size_t kKeptRecords = 65'536;

  /// Starts a collective and records it. Throws CommError if the tensors do not fit, or if it could
  /// not be started.
  c10::intrusive_ptr<c10d::Work> start(CollectiveArguments arguments) override;
  /// The records of all collectives that are done and were not taken before, in the order of the
  /// calls.
  std::vector<CollectiveRecord> take_records();
  /// Those under way, and those that nobody waited for, in words.
  std::vector<std::string> open_collectives() const;
  /// Says that the captured collectives have run once more: the next take_records() has a record of
  /// each. A capture alone makes no records.
  void replay();
  /// Ends the wrapped backend in order. All ranks call it, with no collective under way. Throws
  /// CommError.
  void shutdown() override;
  /// Drops the wrapped backend at once; later collectives throw CommError. A second call does
  /// nothing.
  void release() { inner_.reset(); }
  /// "rank 1 of 2", "of ranks 1, 3: rank 1 of 2"
  const std::string& place() const { return place_; }

  c10::intrusive_ptr<Options> getBackendOptions() override { return inner().getBackendOptions(); }
  /// The wrapped backend's memory; not recorded. Throws CommError.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;

 private:
  c10d::Backend& inner() const;
  /// Throws CommError unless the tensors are contiguous, on the device, and fit each other.
  void check(const CollectiveArguments& arguments) const;
  /// Completes the record of a collective that the call has done.
  void end_at_once(CollectiveEntry& entry);
  /// Its record will be taken.
  void keep(const std::shared_ptr<CollectiveEntry>& entry);
  std::int64_t time_or_zero(Mark mark) const;
  /// Moves the records of what is done from entries_ to done_.
  void collect();

  c10::intrusive_ptr<c10d::Backend> inner_;
  const std::string place_;
  const int ranks_per_host_;
  Device& device_;
  std::deque<std::shared_ptr<CollectiveEntry>> entries_;
  /// Collectives of the captured work: replay() copies them to entries_.
  std::vector<std::shared_ptr<CollectiveEntry>> captured_;
  /// Records not taken yet, older than entries_.
  std::vector<CollectiveRecord> done_;
  /// For each of the backend's threads: when it ended the last collective dropped from entries_.
  std::vector<std::int64_t> worker_free_ns_;
};

}  // namespace ddprun
