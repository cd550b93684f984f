// Streams of the far device: a check that work waits for what it uses, by vector clocks, as
// PyTorch's CUDA sanitizer has it (torch/cuda/_sanitizer.py).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <array>
#include <string>

namespace ddprun::test {

/// A stream is a number. 0 is what a thread has unless it takes another, 1 the rank's own. Each
/// collective, and each callback of one, takes the next of the others.
constexpr int kRankStream = 1;
constexpr int kStreams = 128;

/// The calling thread's.
int far_stream();
/// Returns the one before.
int set_far_stream(int stream);
int next_far_stream();

struct FarCalls;
/// How far work of each stream has come.
using FarClock = std::array<std::int64_t, kStreams>;
/// A point in a stream, and the capture that it belongs to.
struct FarEvent {
  FarClock clock;
  const FarCalls* capture;
};
FarEvent far_event(int stream);
/// Lets the stream wait. Throws if one of both is captured and the other is not.
void far_wait(int stream, const FarEvent& event);
/// What is called from now on, in any stream, comes behind the work of this one.
void host_waits_for(int stream);

/// Work in the calling thread's stream. Throws if it reads what other work writes, or writes what
/// other work reads or writes, and has not waited for it; or if memory was released meanwhile.
void far_use(const std::string& who, const at::Tensor& tensor, bool writes);
/// All of an operator's arguments, or of its results that are no views.
void far_use_all(const c10::FunctionSchema& op, at::ArrayRef<c10::IValue> values, bool results);

/// Memory is the calling thread's stream's: when it is released, that has to be behind its uses.
void far_allocated(const void* block, std::size_t bytes);
void far_released(const void* block);
/// As CUDACachingAllocator's recordStream: a release will wait for the stream.
void release_waits_for(const void* block, int stream);

/// The calling thread works in a stream of its own, behind what its stream before has to do.
class OwnFarStream {
 public:
  OwnFarStream();
  ~OwnFarStream();

 private:
  const int before_ = far_stream();
};

/// Streams take part in a capture if they wait for it, and must be waited for before it ends.
class FarCaptureStreams {
 public:
  FarCaptureStreams();
  /// Throws if one was not.
  void end() const;

 private:
  FarClock before_;
};

}  // namespace ddprun::test
