// Captured work as a CUDA graph.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ScopeExit.h>

#include "ddprun/base/failure.h"
#include "ddprun/cuda/cuda_device.h"

namespace ddprun::cuda {

namespace {

class CudaGraph final : public CapturedWork {
 public:
  explicit CudaGraph(CudaDevice& device) : device_(device) {}

  /// Memory that is allocated meanwhile comes from a pool that stays the graph's. Other threads may
  /// work on the capturing stream, as autograd's do. The mode restricts calls of this thread alone,
  /// because NCCL's watchdog queries events at any time.
  void capture(const std::function<void()>& work) {
    const auto pool = at::cuda::graph_pool_handle();
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      abandon(pool);
      throw;  // `work`'s own error says more than an invalid capture
    }
    graph_.capture_end();
  }

  void launch() override {
    graph_.replay();
    device_.launched();
  }

 private:
  /// Ends the stream's capture, and both allocators' use of the pool if it was invalid.
  void abandon(const at::cuda::MempoolId_t& pool) {
    try {
      graph_.capture_end();
    } catch (const std::exception&) {
      give_back(pool);
    }
  }

  /// What PyTorch 2.11 leaves to us, the device's pool and that of page-locked memory. Newer ones
  /// have done it, and then the first call throws.
  void give_back(const at::cuda::MempoolId_t& pool) {
    const auto device = device_.torch_device().index();
    at::HostAllocator& host = *at::getHostAllocator(at::kCUDA);
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);
      c10::cuda::CUDACachingAllocator::releasePool(device, pool);
      host.end_allocate_to_pool(pool);
      host.release_pool(pool);
    } catch (const c10::Error&) {
    }
  }

  CudaDevice& device_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

std::unique_ptr<CapturedWork> CudaDevice::capture(const std::function<void()>& work) {
  synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();  // eager steps' memory, which the graph needs anew
  auto graph = std::make_unique<CudaGraph>(*this);
  capturing_ = true;
  const auto end = c10::make_scope_exit([this] { capturing_ = false; });
  try {
    graph->capture(work);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw Error({.what = "the step cannot be captured as a CUDA graph",
                 .where = device_.str(),
                 .got = first_line_of(failure),
                 .expected = "operators that neither wait for the device nor depend on its values",
                 .hint = "set `mode: eager` under `execution:`, or take another plugin"});
  }
  return graph;
}

void CudaDevice::launched() {
  const Mark behind = mark();
  const std::lock_guard lock(mutex_);
  launched_ = behind;
}

}  // namespace ddprun::cuda
