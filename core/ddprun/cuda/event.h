// A CUDA event with a time; a captured graph can record it too.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace ddprun::cuda {

/// Unlike at::cuda::CUDAEvent, it has a time that can be asked for after a graph has recorded it.
class Event {
 public:
  Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~Event() { C10_CUDA_CHECK_WARN(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const c10::cuda::CUDAStream& stream) {
    C10_CUDA_CHECK(cudaEventRecord(event_, stream));
  }
  /// Call it during a capture: every launch of the graph then records the event at this place.
  void record_in_graph(const c10::cuda::CUDAStream& stream) {
    C10_CUDA_CHECK(cudaEventRecordWithFlags(event_, stream, cudaEventRecordExternal));
  }

  /// Whether the device has reached the place where the event was last recorded. For an event in a
  /// graph that may be the launch before the last, so first wait for an event behind the launch.
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
