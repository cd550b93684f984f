// A CUDA event with a time, which a captured graph may record too.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace ddprun::cuda {

/// at::cuda::CUDAEvent cannot be recorded by a graph so that its time can be asked for afterwards.
class Event {
 public:
  Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~Event() { C10_CUDA_CHECK_WARN(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const c10::cuda::CUDAStream& stream) {
    C10_CUDA_CHECK(cudaEventRecord(event_, stream));
  }
  /// In a capture: every launch of the graph records it there.
  void record_in_graph(const c10::cuda::CUDAStream& stream) {
    C10_CUDA_CHECK(cudaEventRecordWithFlags(event_, stream, cudaEventRecordExternal));
  }

  /// Whether the device has reached where it was last recorded. Of an event in a graph this may be
  /// the launch before the last: wait for an event behind the launch first.
  bool done() const {
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();  // not an error; the next check must not see it
      return false;
    }
    C10_CUDA_CHECK(state);
    return true;
  }
  void synchronize() const { C10_CUDA_CHECK(cudaEventSynchronize(event_)); }

  /// Milliseconds from this event to `later`; both are done.
  float ms_to(const Event& later) const {
    float ms = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&ms, event_, later.event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace ddprun::cuda
