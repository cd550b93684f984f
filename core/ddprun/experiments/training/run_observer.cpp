// Memory by phase, and the memory snapshot.
#include "ddprun/experiments/training/run_observer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "ddprun/base/error.h"
#include "ddprun/device/memory_history.h"

namespace ddprun {

namespace {

constexpr const char* kSnapshotFile = "memory_rank0.pickle";

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);  // opening says why not
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    throw Error({.what = "the memory snapshot cannot be written",
                 .where = path.string(),
                 .got = std::strerror(errno),
                 .expected = "a file that can be written",
                 .hint = "free space or rights may be missing; --output DIR writes elsewhere"});
  }
}

}  // namespace

/// Phases that follow one another: each begins with the allocator's peaks at what is allocated. A
/// phase that comes several times in a step has the last one's bytes and the highest peaks.
class RunObserver::Memory final : public PhaseListener {
 public:
  explicit Memory(Device& device) : device_(device) {}

  void watch_step(bool watched) { step_watched_ = watched; }

  void begin(Phase phase) override {
    if (watches(phase)) device_.reset_memory();
  }

  void end(Phase phase) override {
    if (!watches(phase)) return;
    DeviceMemory now = device_.memory();
    const auto known = std::find_if(phases_.begin(), phases_.end(), [phase](const auto& each) {
      return each.phase == to_string(phase);
    });
    if (known == phases_.end()) {
      phases_.push_back({to_string(phase), now});
      return;
    }
    const DeviceMemory before = known->memory;
    now.peak_allocated_bytes = std::max(now.peak_allocated_bytes, before.peak_allocated_bytes);
    now.peak_reserved_bytes = std::max(now.peak_reserved_bytes, before.peak_reserved_bytes);
    now.retries += before.retries;
    known->memory = now;
  }

  const std::vector<PhaseMemory>& phases() const { return phases_; }

 private:
  /// A run's proof has phases too.
  bool watches(Phase phase) const {
    return phase != Phase::step && (step_watched_ || phase == Phase::setup);
  }

  Device& device_;
  bool step_watched_ = false;
  std::vector<PhaseMemory> phases_;
};

RunObserver::RunObserver(const ProfileConfig& config, Device& device,
                         std::optional<std::int64_t> step, std::filesystem::path folder)
    : step_(step), folder_(std::move(folder)), memory_(std::make_unique<Memory>(device)) {
  if (!step_) return;
  counting_ = device.count_memory();
  to_memory_.emplace(*memory_);
  if (config.memory_snapshot && !folder_.empty()) {
    history_ = device.record_memory();
    to_history_.emplace(*history_);
  }
}

RunObserver::~RunObserver() { end(); }

void RunObserver::end() {
  to_history_.reset();
  to_memory_.reset();
  history_.reset();
  counting_.reset();
}

void RunObserver::before_step(std::int64_t index) { memory_->watch_step(index == step_); }

void RunObserver::after_step(std::int64_t index) {
  if (index != step_) return;
  if (history_) {
    write_file(folder_ / kSnapshotFile, history_->pickle());
    snapshot_ = kSnapshotFile;
  }
  end();
}

void RunObserver::add_to(RankResult& result) const {
  result.memory_phases = memory_->phases();
  result.memory_snapshot = snapshot_;
}

}  // namespace ddprun
