// Clocks of streams, and who used which bytes when.
#include "far_device/far_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "far_device/far_device.h"

namespace ddprun::test {

namespace {

struct Use {
  std::size_t begin = 0, end = 0;  // bytes of the block
  bool writes = false;
  int stream = 0;
  std::int64_t time = 0;  // of the stream
  std::string who;
};

struct Block {
  std::size_t bytes = 0;
  int stream = 0;
  std::set<int> awaited;  // streams that a release waits for
  std::vector<Use> uses;  // those that a later one may have to wait for
};

const char* verb(const Use& use) { return use.writes ? "writes" : "reads"; }

bool overlap(const Use& a, const Use& b) { return a.begin < b.end && b.begin < a.end; }
bool covers(const Use& a, const Use& b) { return a.begin <= b.begin && b.end <= a.end; }

void join(FarClock& clock, const FarClock& other) {
  std::ranges::transform(clock, other, clock.begin(),
                         [](auto one, auto two) { return std::max(one, two); });
}

/// What lies from a tensor's first element to its last.
Use use_of(const std::string& who, const at::Tensor& tensor, bool writes) {
  Use use;
  use.writes = writes;
  use.stream = far_stream();
  use.who = who;
  use.begin = static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
  std::int64_t last = 0;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  use.end = use.begin + static_cast<std::size_t>(last + 1) * tensor.itemsize();
  return use;
}

class Streams {
 public:
  static Streams& instance() {
    static auto& streams = *new Streams;
    return streams;
  }

  FarClock clock(int stream) {
    const std::lock_guard lock(mutex_);
    return clocks_[stream];
  }
  void wait(int stream, const FarClock& clock) {
    const std::lock_guard lock(mutex_);
    join(clocks_[stream], clock);
    ++clocks_[stream][stream];
  }
  void let_all_wait(int stream) {
    const std::lock_guard lock(mutex_);
    for (FarClock& each : clocks_) join(each, clocks_[stream]);
  }

  void use(const at::Tensor& tensor, Use next) {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(released_early_.empty(), std::exchange(released_early_, {}));
    const auto found = blocks_.find(tensor.storage().data());
    if (found == blocks_.end()) return;
    Block& block = found->second;
    for (const Use& use : block.uses) {
      TORCH_CHECK(
          done(use, next.stream) || !overlap(use, next) || !(use.writes || next.writes),
          fmt::format("{} {} bytes {} to {} of a block of {}, which {} {} in another "
                      "stream, and has not waited for it",
                      next.who, verb(next), next.begin, next.end, block.bytes, use.who, verb(use)));
    }
    next.time = ++clocks_[next.stream][next.stream];
    // Who waits for this one has waited for those.
    std::erase_if(block.uses, [&](const Use& use) {
      return done(use, next.stream) && covers(next, use) && (next.writes || !use.writes);
    });
    last_[next.stream] = next.who;
    block.uses.push_back(std::move(next));
  }

  void allocated(const void* block, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_[block] = {.bytes = bytes, .stream = far_stream(), .awaited = {}, .uses = {}};
  }
  void released(const void* memory) {
    const std::lock_guard lock(mutex_);
    const auto node = blocks_.extract(memory);
    if (node.empty()) return;
    const Block& block = node.mapped();
    for (const Use& use : block.uses) {
      if (done(use, block.stream) || block.awaited.contains(use.stream)) continue;
      released_early_ = fmt::format(
          "a block of {} bytes was released while {} {} it in a stream that the block's stream has "
          "not waited for",
          block.bytes, use.who, verb(use));
    }
  }
  void release_waits_for(const void* block, int stream) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    if (found != blocks_.end()) found->second.awaited.insert(stream);
  }

  /// Each stream's own time.
  FarClock times() {
    const std::lock_guard lock(mutex_);
    FarClock times;
    for (int stream = 0; stream < kStreams; ++stream) times[stream] = clocks_[stream][stream];
    return times;
  }
  const std::string& last_in(int stream) { return last_[stream]; }

 private:
  /// Whether the stream's next work comes behind it.
  bool done(const Use& use, int stream) const {
    return use.stream == stream || clocks_[stream][use.stream] >= use.time;
  }

  std::mutex mutex_;
  std::array<FarClock, kStreams> clocks_ = {};
  std::array<std::string, kStreams> last_;
  std::map<const void*, Block> blocks_;
  std::string released_early_;
};

thread_local int current_stream = 0;

}  // namespace

int far_stream() { return current_stream; }
int set_far_stream(int stream) { return std::exchange(current_stream, stream); }
int next_far_stream() {
  static std::atomic<int> taken = 0;
  return kRankStream + 1 + taken++ % (kStreams - kRankStream - 1);
}

FarEvent far_event(int stream) { return {Streams::instance().clock(stream), far_capture}; }

void far_wait(int stream, const FarEvent& event) {
  TORCH_CHECK(event.capture == far_capture,
              far_capture != nullptr ? "a captured step waits for work from before the capture"
                                     : "a stream waits for captured work, which has not run");
  Streams::instance().wait(stream, event.clock);
}

void host_waits_for(int stream) { Streams::instance().let_all_wait(stream); }

void far_use(const std::string& who, const at::Tensor& tensor, bool writes) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.numel() == 0) return;
  Streams::instance().use(tensor, use_of(who, tensor, writes));
}

void far_use_all(const c10::FunctionSchema& op, at::ArrayRef<c10::IValue> values, bool results) {
  const auto& declared = results ? op.returns() : op.arguments();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const c10::AliasInfo* const alias = declared[i].alias_info();
    const bool is_counted = alias == nullptr || (alias->isWrite() && !results);
    if (!is_counted) continue;  // a view, or counted as an argument
    const bool writes = results || alias != nullptr;
    if (values[i].isTensor()) {
      far_use(op.name(), values[i].toTensor(), writes);
    } else if (values[i].isTensorList()) {
      for (const at::Tensor& each : values[i].toTensorVector()) far_use(op.name(), each, writes);
    } else if (values[i].isOptionalTensorList()) {
      for (const auto& each : values[i].toOptionalTensorVector()) {
        if (each) far_use(op.name(), *each, writes);
      }
    }
  }
}

void far_allocated(const void* block, std::size_t bytes) {
  Streams::instance().allocated(block, bytes);
}
void far_released(const void* block) { Streams::instance().released(block); }
void release_waits_for(const void* block, int stream) {
  Streams::instance().release_waits_for(block, stream);
}

OwnFarStream::OwnFarStream() {
  const int own = next_far_stream();
  far_wait(own, far_event(before_));
  set_far_stream(own);
}
OwnFarStream::~OwnFarStream() { set_far_stream(before_); }

FarCaptureStreams::FarCaptureStreams() : before_(Streams::instance().times()) {}

void FarCaptureStreams::end() const {
  const FarClock times = Streams::instance().times();
  const FarClock waited = Streams::instance().clock(far_stream());
  for (int stream = 0; stream < kStreams; ++stream) {
    TORCH_CHECK(times[stream] == before_[stream] || waited[stream] >= times[stream],
                "the capture ends, and nobody has waited for ",
                Streams::instance().last_in(stream));
  }
}

}  // namespace ddprun::test
