// The caching allocator's history by PyTorch's own recorder and pickler.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/csrc/cuda/memory_snapshot.h>

#include <cstdlib>

#include "ddprun/cuda/cuda_device.h"

namespace ddprun::cuda {

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// How many allocations and frees are kept, the last ones: some hundred MB with their stacks.
constexpr std::size_t kMostEntries = 200'000;

class CachingAllocatorHistory final : public MemoryHistory {
 public:
  CachingAllocatorHistory() {
    // Takes names of functions from the libraries' own tables. PyTorch's default starts addr2line,
    // which for minutes reads debug information that the wheel does not have.
    ::setenv("TORCH_SYMBOLIZE_MODE", "dladdr", 0);
    torch::cuda::_record_memory_history("all", "all", "all", kMostEntries, /*clearHistory=*/true);
  }
  ~CachingAllocatorHistory() override {
    allocator::setUserMetadata("");
    torch::cuda::_record_memory_history(std::optional<std::string>(), std::optional<std::string>());
  }

  void begin(Phase phase) override { allocator::setUserMetadata(to_string(phase)); }
  void end(Phase phase) override {
    // Back in the step, or between steps.
    const bool whole = phase == Phase::step || phase == Phase::setup;
    allocator::setUserMetadata(whole ? "" : to_string(Phase::step));
  }

  std::string pickle() override { return torch::cuda::_memory_snapshot_pickled(); }
};

}  // namespace

std::unique_ptr<MemoryHistory> CudaDevice::record_memory() {
  return std::make_unique<CachingAllocatorHistory>();
}

}  // namespace ddprun::cuda
