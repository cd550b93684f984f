// A c10d::Backend that passes every collective on to another one and records when it ran.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/comm/collective.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/profiler_range.h"

namespace ddprun {

/// A collective from its call until someone takes its record. The atomics are written by the
/// backend's thread and by whoever waits; the rest is fixed at the call. Marks become times when
/// the record is taken.
struct CollectiveEntry {
  CollectiveRecord record;    ///< without times
  Mark enqueue = 0;           ///< behind what the tensors' values wait for
  std::atomic<Mark> end = 0;  ///< 0: the device does not know of it yet
  std::atomic<Mark> wait_begin = 0;
  std::atomic<Mark> wait_end = 0;
  bool taken = false;

  /// What a profiler shows: from the call until the collective is done and, if someone waits for
  /// it, the first wait is over. (On a GPU the operation counts as done once it is enqueued.)
  std::optional<ProfilerSpan> span;
  /// Called when the operation is done, and when nobody is going to wait any more.
  void release_span() {
    if (--span_holders == 0) span.reset();
  }
  std::atomic<int> span_holders = 2;
};

/// The work of a recorded collective. Its future completes after the record does, and carries
/// failures as CommError, so that code which waits for the future (c10d::Reducer) sees both as
/// well.
class RecordedWork final : public c10d::Work {
 public:
  RecordedWork(Device& device, std::shared_ptr<CollectiveEntry> entry,
               c10::intrusive_ptr<c10::ivalue::Future> future)
      : device_(device), entry_(std::move(entry)), future_(std::move(future)) {}
  ~RecordedWork() override;

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->hasValue(); }
  std::exception_ptr exception() const override { return future_->exception_ptr(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  /// The first call is the one whose times are recorded. The backend's own timeout ends it, none
  /// given here can. On a GPU the current stream waits, not the caller.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;

 private:
  Device& device_;
  std::shared_ptr<CollectiveEntry> entry_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// Wraps `inner`, whose Works must supply futures: completed on the CPU when the result is there;
/// on a GPU when it is enqueued, with what waits for it. Everything that a ProcessGroup sends goes
/// through here, whether by its own methods (`record`) or by c10d code that holds this object as
/// its backend (the overrides).
class RecordingBackend final : public c10d::Backend {
 public:
  /// `device`: of the tensors; it outlives this.
  RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner, int workers, Device& device);

  static constexpr std::size_t kKeptRecords = 65'536;

  using Call = std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;
  /// Starts a collective by `call` and records it. Throws CommError if it could not be started.
  c10::intrusive_ptr<RecordedWork> record(CollectiveKind kind, std::int64_t bytes,
                                          std::string_view label, const Call& call);
  /// Of every collective that is done and was not taken before; of these, if nobody takes them, the
  /// last kKeptRecords at least.
  std::vector<CollectiveRecord> take_records();
  /// The collectives that were recorded while the device captured have run once more: their records
  /// come with the next take_records(). Of a capture alone there are none.
  void replay();
  /// Ends the wrapped backend in order; all ranks do so, with nothing under way. Throws CommError.
  void shutdown() override;
  /// Drops the wrapped backend as it is; later collectives throw CommError. Does nothing the second
  /// time.
  void release() { inner_.reset(); }
  /// "rank 1 of 2"
  std::string place() const;

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner().getBackendOptions(); }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  /// Not recorded. Throws CommError.
  at::Tensor allocateTensor(long elements, at::TensorOptions options) override;

 private:
  c10d::Backend& inner() const;
  std::int64_t time_or_zero(Mark mark) const;
  /// Moves the records of what is done from entries_ to done_.
  void collect();

  c10::intrusive_ptr<c10d::Backend> inner_;
  const std::string name_;
  Device& device_;
  std::deque<std::shared_ptr<CollectiveEntry>> entries_;
  std::vector<std::shared_ptr<CollectiveEntry>> captured_;  ///< with marks of the captured work
  std::vector<CollectiveRecord> done_;                      ///< not taken yet, older than entries_
  /// When each of the backend's threads finished the last collective dropped from entries_.
  std::vector<std::int64_t> worker_free_ns_;
};

/// A CommError of this failure. The first line of its message is `got`; where the text has no hint,
/// the message suggests one.
CommError comm_error(const std::exception& failure, ErrorText text);

}  // namespace ddprun
